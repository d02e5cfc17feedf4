"""``anytime serve``: models behind HTTP, answering in time whatever the load."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anytime.cli.errors import CliError, UsageError

if TYPE_CHECKING:
    import socket

    from anytime.serve.app import Server
    from anytime.serve.settings import Settings

__all__ = ["serve"]

_LOCAL = ("127.0.0.1", "localhost", "::1")


def serve(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help=".anytime files. Clients call a model by its file's name, or by NAME in NAME=FILE.",
        ),
    ],
    slo_ms: Annotated[
        float,
        typer.Option(
            "--slo-ms",
            min=0.0,
            metavar="MS",
            help="Milliseconds within which requests are answered. 0: no limit.",
        ),
    ] = 10.0,
    host: Annotated[
        str, typer.Option(help="Address to listen at. 0.0.0.0 lets other machines in.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, help="Processes that answer.")] = 1,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="ANYTIME_TOKEN",
            show_envvar=True,
            help="Answer only who sends it: Authorization: Bearer TOKEN.",
        ),
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Python file with extractors, for features that clients do not send."
        ),
    ] = None,
    max_body: Annotated[
        int, typer.Option("--max-body-mb", min=1, metavar="MB", help="Size of a request.")
    ] = 8,
    max_rows: Annotated[int, typer.Option(min=1, help="Rows in a request.")] = 10_000,
    max_columns: Annotated[int, typer.Option(min=1, help="Columns of a model.")] = 100_000,
    max_concurrency: Annotated[
        int, typer.Option(min=1, help="Requests that a worker holds at once.")
    ] = 10_000,
    watch: Annotated[
        float,
        typer.Option(
            min=0.0, metavar="SECONDS", help="How often to look for a new file of a model. 0: never."
        ),
    ] = 1.0,
    drain: Annotated[
        float, typer.Option(min=0.0, metavar="SECONDS", help="Time to finish when told to stop.")
    ] = 10.0,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    log_requests: Annotated[
        bool, typer.Option("--log-requests", help="Log each request, not only failures.")
    ] = False,
) -> None:
    """Serve models over HTTP. Under load, answers are less exact rather than late.

    Speaks the Open Inference Protocol (clients of Triton and KServe), plain JSON at /predict, and shows itself at /.

    Example: anytime serve heart.anytime --slo-ms 10
    """
    try:
        from anytime.serve.settings import Settings
        from anytime.serve.workers import bind
        from anytime.serve.workers import serve as run
    except ImportError as error:
        raise CliError(
            f"serving needs {error.name}, which is not installed: pip install 'anytime[serve]'"
        ) from None
    settings = _settings(
        Settings,
        models=_named(models),
        slo=slo_ms / 1e3 if slo_ms else None,
        host=host,
        port=port,
        workers=workers,
        token=token or None,
        features=features,
        max_body=max_body << 20,
        max_rows=max_rows,
        max_columns=max_columns,
        max_concurrency=max_concurrency,
        watch=watch or None,
        drain=drain,
        log_level=log_level,
        log_requests=log_requests,
    )
    for path in [*settings.models.values(), *([] if features is None else [features])]:
        path.open("rb").close()  # raises what is wrong with it, before anything takes long
    listener = _listener(bind, host, port)
    with listener:
        code = run(settings, listener, lambda server: _announce(server, listener))
    raise typer.Exit(code)


def _settings(kind: Any, **given: Any) -> Settings:
    try:
        made: Settings = kind(**given)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return made


def _named(models: list[str]) -> dict[str, Path]:
    """Files by name: what stands before ``=``, or the file's own name, which may have a ``=`` in it."""
    named: dict[str, Path] = {}
    for given in models:
        name, equals, file = ("", "", "") if Path(given).exists() else given.partition("=")
        path = Path(file if equals else given)
        name = name if equals else path.name.removesuffix(".anytime").replace(" ", "_")
        if name in named:
            raise UsageError(f"two models are called {name!r}; name one of them: NAME={path}")
        if path.is_dir():
            raise CliError(f"{path} is a directory, not an .anytime file")
        named[name] = path
    return named


def _listener(bind: Any, host: str, port: int) -> socket.socket:
    try:
        listener: socket.socket = bind(host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CliError(
                f"port {port} of {host} is taken; choose another with --port, or 0 for any that is free"
            ) from None
        if error.errno == errno.EACCES:
            raise CliError(f"port {port} needs more rights than you have; choose one above 1023") from None
        raise CliError(f"cannot listen at {host}, port {port}: {error.strerror or error}") from None
    return listener


def _announce(server: Server, listener: socket.socket) -> None:
    """Say where the server is and what it serves."""
    settings = server.settings
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    aim = "as long as it takes" if settings.slo is None else f"within {settings.slo * 1e3:g} ms"
    print(
        f"anytime serves http://{shown}:{port}/ {aim}, {settings.workers} worker{'s' * (settings.workers > 1)}"
    )
    for name, path in settings.models.items():
        entry = server.registry.get(name)
        pace, plan = entry.engine.pace, entry.model.plan_
        whole = pace.seconds(0, plan.n_stages, 1) * 1e6
        print(
            f"  {name}: {path}, {plan.n_stages} stages, {plan.n_features} columns, {whole:.0f} us for all stages of a row"
        )
    row = "[" + ", ".join(["0"] * min(plan.n_features, 3)) + (", ..." if plan.n_features > 3 else "") + "]"
    named = f'"model": "{name}", ' if len(settings.models) > 1 else ""
    print(f"  try: curl http://{shown}:{port}/predict -d '{{{named}\"row\": {row}}}'", flush=True)
    if settings.token is None and host not in _LOCAL:
        print("  note: other machines can reach it, and it asks for no token (--token)", flush=True)
