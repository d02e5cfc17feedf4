// Runs before the first paint: a theme that was chosen earlier does not flash.
"use strict";
try {
  const chosen = localStorage.getItem("theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch {
  // storage may be forbidden: then the system's theme it is
}
