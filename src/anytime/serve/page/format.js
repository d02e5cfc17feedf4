// Numbers as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const exact = new Intl.NumberFormat("en", { maximumSignificantDigits: 6 });
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

/** Three digits that matter, more where the number is whole and long. */
export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return value.toExponential(2);
  return size >= 1000 ? whole.format(value) : short.format(value);
}

export const milliseconds = (value) => (known(value) ? `${number(value)} ms` : "–");

/** A share in percent; never 100 % or 0 % unless it is all or none. */
export function percent(share) {
  if (!known(share)) return "–";
  const value = 100 * share;
  if (value > 99.9 && value < 100) return `${Math.floor(value * 100) / 100} %`;
  if (value > 0 && value < 0.01) return "< 0.01 %";
  return `${short.format(value)} %`;
}

export const withUnit = (value, unit) => (unit ? `${number(value)} ${unit}` : number(value));

export const known = (value) => typeof value === "number" && Number.isFinite(value);

/** An answer: a class as it is, a number with six digits that matter. */
export const answer = (value) => (typeof value === "number" && !Number.isInteger(value) ? exact.format(value) : String(value));

export function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${number(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}
