"""One clear line for everything that can go wrong: what was wrong, where, and what to do.

Exit codes: 1 for bad data or a bad file, 2 for a bad command line, 130 after Ctrl-C, 141 when the reader of a pipe left.
"""

import errno
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from typer.core import TyperGroup

INTERRUPTED, PIPE_CLOSED = 130, 141  # 128 + the number of the signal, as a shell reports it
_EXTRAS = {
    "lightgbm": "lightgbm",
    "xgboost": "xgboost",
    "matplotlib": "plot",
    "pyarrow": "parquet",
    "fastparquet": "parquet",
    "onnx": "onnx",
}


class CliError(Exception):
    """An error that the user can do something about."""

    exit_code = 1


class UsageError(CliError):
    """An error in what was typed rather than in what was read."""

    exit_code = 2


class _Stopped(Exception):  # noqa: N818  # nothing went wrong
    """Ctrl-C or a closed pipe, on its way to the one place that ends the program."""


class Commands(TyperGroup):
    """The commands, and the one place where an error becomes a line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; keep Typer from answering Ctrl-C and closed pipes in its own way."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # a pipe may turn out to be closed only now
            return result
        except KeyboardInterrupt:
            raise _Stopped(INTERRUPTED) from None
        except BrokenPipeError:
            raise _Stopped(PIPE_CLOSED) from None

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line ``args`` and exit."""
        arguments = list(sys.argv[1:] if args is None else args)
        debug = "--debug" in arguments  # wherever it stands: it is wanted when a command line has just failed
        arguments = [argument for argument in arguments if argument != "--debug"] or ["--help"]
        _prepare_streams()
        try:
            with warnings.catch_warnings():
                if not debug:
                    warnings.showwarning = _one_line_warning
                result = super().main(arguments, prog_name, complete_var, False, windows_expand_args, **extra)
        except _Stopped as stopped:
            sys.exit(_stop(int(stopped.args[0])))
        except Exception as error:
            if debug:
                raise
            _say("error", _sentence(error))
            sys.exit(int(getattr(error, "exit_code", 1)))
        if result == INTERRUPTED:  # Ctrl-C before the command began
            _stop(INTERRUPTED)
        sys.exit(result if isinstance(result, int) else 0)


# ---------------------------------------------------------------------- from exceptions to sentences


def _sentence(error: Exception) -> str:
    """The message for the user."""
    if _is_typer(error):
        return _usage_sentence(error)
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{_reason(error)}"
    if isinstance(error, ImportError):
        return _missing_package(error)
    if getattr(error, "keyword", None) == "costly":
        lost = getattr(error, "name", "")
        return (
            f"some rows are sent to {lost!r}, which is not in the file: give it with --costly FILE (predict, curve, serve, "
            "simulate), or to predict a --budget that does not reach it"
        )
    if isinstance(error, MemoryError):
        return "not enough memory"
    explained = isinstance(error, (CliError, ValueError, TypeError, RuntimeError, OSError))
    text = one_line(str(error))
    if explained and text:
        return text
    return f"{type(error).__name__}: {text} (this should not happen; --debug shows where)"


def one_line(text: str) -> str:
    """``text`` with its line breaks taken out; of a long explanation only the first paragraph."""
    first = text.strip().split("\n\n")[0]
    return " ".join(first.split())


def _is_typer(error: Exception) -> bool:
    # Typer brings its own copy of click in new versions and uses the installed one in old versions: no class to name.
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def _usage_sentence(error: Any) -> str:
    text = one_line(error.format_message()).rstrip(".")
    text = text[:1].lower() + text[1:]
    context = getattr(error, "ctx", None)
    return f"{text} (see {context.command_path} --help)" if context is not None else text


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if error.errno == errno.EISDIR:
        return "is a directory, not a file"
    strerror = str(error.strerror)
    return strerror[:1].lower() + strerror[1:]


def _missing_package(error: ImportError) -> str:
    package = (error.name or "").partition(".")[0]
    if package in _EXTRAS:
        return f"this needs {package}, which is not installed: pip install 'anytime[{_EXTRAS[package]}]'"
    return one_line(str(error)) or f"cannot import {error.name}"


# ---------------------------------------------------------------------- streams


def _say(kind: str, text: str) -> None:
    with suppress(OSError):  # the reader of the pipe may have ended
        sys.stdout.flush()
        print(f"anytime: {kind}: {text}", file=sys.stderr, flush=True)


def _one_line_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if not issubclass(category, DeprecationWarning | PendingDeprecationWarning | FutureWarning):
        _say("warning", one_line(str(message)))


def _prepare_streams() -> None:
    """Print a question mark for a character that the terminal's encoding lacks, rather than fail."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _stop(code: int) -> int:
    if code == INTERRUPTED:
        print(file=sys.stderr)
        _say("error", "interrupted")
    else:  # the interpreter flushes stdout once more on its way out; let that go nowhere
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code
