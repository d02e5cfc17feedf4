"""``anytime serve``: models behind HTTP, answering in time whatever the load."""

from __future__ import annotations

import contextlib
import errno
import json
import shlex
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anytime.cli.errors import CliError, UsageError
from anytime.cli.io import load_estimator, refuse_pickle
from anytime.cli.options import Trusted, option

if TYPE_CHECKING:
    import socket

    from anytime.serve.app import Server
    from anytime.serve.settings import Settings

_WIDEST = 200  # characters of a line that is worth pasting
_LOCAL = ("127.0.0.1", "localhost", "::1")


def serve(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="The .anytime files. Clients address a model by its file name, or by NAME if you give NAME=FILE.",
        ),
    ],
    slo_ms: Annotated[
        float,
        option("MS", "Latency target in milliseconds. 0: none.", "--slo-ms", min=0.0),
    ] = 10.0,
    host: Annotated[
        str, typer.Option(help="Address to listen on. 0.0.0.0 accepts other machines.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on. 0: any free port.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 1,
    ray: Annotated[
        bool,
        typer.Option(
            "--ray",
            help="Run the workers with Ray Serve, on the Ray cluster of RAY_ADDRESS or of this machine, or on a new one.",
        ),
    ] = False,
    max_workers: Annotated[
        int | None, typer.Option(min=1, help="With --ray: add workers under load, up to so many.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="ANYTIME_TOKEN",
            show_envvar=True,
            help="Require clients to send Authorization: Bearer TOKEN.",
        ),
    ] = None,
    features: Annotated[
        Path | None, option("FILE", "Python file with extractors for features that clients do not send.")
    ] = None,
    costly: Annotated[
        list[str] | None,
        option(
            "FILE",
            "Costly model of a ladder or adaptive model, if not in its file: .anytime, or a pickle with --trusted. "
            "NAME=FILE if there are several models.",
        ),
    ] = None,
    trusted: Trusted = False,
    max_body: Annotated[int, option("MB", "Largest request body.", "--max-body-mb", min=1)] = 8,
    max_rows: Annotated[int, typer.Option(min=1, help="Most rows in a request.")] = 10_000,
    max_columns: Annotated[int, typer.Option(min=1, help="Most columns of a model.")] = 100_000,
    max_concurrency: Annotated[
        int, typer.Option(min=1, help="Most requests that a worker holds at once.")
    ] = 10_000,
    watch: Annotated[
        float, option("SECONDS", "How often to check for new model files. 0: never.", min=0.0)
    ] = 1.0,
    drain: Annotated[float, option("SECONDS", "Time to finish open requests on shutdown.", min=0.0)] = 10.0,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    log_requests: Annotated[
        bool, typer.Option("--log-requests", help="Log every request, not only failures.")
    ] = False,
) -> None:
    """Serve models over HTTP. Under load, answers become less accurate instead of late.

    Speaks the Open Inference Protocol (Triton and KServe clients) and plain JSON at /predict. A status page is at /.

    Example: anytime serve heart.anytime --slo-ms 10
    """
    from anytime.serve.settings import Settings

    named = _named(models)
    settings = _settings(
        Settings,
        models=named,
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
    if max_workers is not None and not (ray and max_workers >= workers):
        raise UsageError("--max-workers needs --ray, and must be at least --workers")
    for path in [*named.values(), *([] if features is None else [features])]:
        path.open("rb").close()  # raises what is wrong with it, before anything takes long
    files = _costly_files(costly, named)
    for path in files.values():
        refuse_pickle(path, trusted)
    try:
        from anytime.serve.workers import bind
    except ImportError as error:
        raise CliError(
            f"serving needs {error.name}, which is not installed: pip install 'anytime[serve]'"
        ) from None
    with contextlib.nullcontext() if ray and port else _listener(bind, host, port) as listener:
        loaded = {name: load_estimator(path, trusted) for name, path in files.items()}
        settings = replace(settings, costly=loaded)
        if listener is not None and not ray:
            raise typer.Exit(_run(settings, listener))
        if listener is not None:
            settings = replace(settings, port=listener.getsockname()[1])  # any that is free
    _run_on_ray(settings, max_workers or workers)


def _run(settings: Settings, listener: socket.socket) -> int:
    """Serve until told to stop; the exit code."""
    from anytime.serve.workers import serve as run

    def started(server: Server) -> None:
        _check_needed(server)
        _announce(server, *listener.getsockname()[:2])

    return int(run(settings, listener, started))


def _run_on_ray(settings: Settings, most: int) -> None:
    """Serve on a Ray cluster until told to stop."""
    try:
        from ray.serve import delete
    except ImportError as error:
        raise CliError(
            f"--ray needs {error.name}, which is not installed: pip install 'anytime[ray,serve]'"
        ) from None
    from anytime.distributed.serving import APPLICATION, deploy
    from anytime.serve.app import Server
    from anytime.serve.board import Board

    server = Server(settings, Board(1, list(settings.models)))
    server.load()  # here first: what is wrong with a file is said at once
    _check_needed(server)
    deploy(replace(settings, workers=1), (settings.workers, most))
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    _announce(server, settings.host, settings.port)
    stop.wait()
    delete(APPLICATION)


def _settings(kind: Any, **values: Any) -> Settings:
    try:
        made: Settings = kind(**values)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return made


def _named(models: list[str]) -> dict[str, Path]:
    """Files by name: what stands before ``=``, or the file's own name."""
    named: dict[str, Path] = {}
    for argument in models:
        name, path = _parted(argument)
        name = name or path.name.removesuffix(".anytime").replace(" ", "_")
        if name in named:
            raise UsageError(f"two models are called {name!r}; name one of them: NAME={path}")
        if path.is_dir():
            raise CliError(f"{path} is a directory, not an .anytime file")
        named[name] = path
    return named


def _costly_files(costly: list[str] | None, models: dict[str, Path]) -> dict[str, Path]:
    """Files of costly models by the name of the model that each is for."""
    files: dict[str, Path] = {}
    for argument in costly or []:
        name, path = _parted(argument)
        if not name and len(models) > 1:
            raise UsageError(f"there are several models: say which one --costly is for, as in NAME={path}")
        name = name or next(iter(models))
        if name not in models:
            raise UsageError(
                f"--costly {argument}: no model is called {name!r}; there is {', '.join(models)}"
            )
        if name in files:
            raise UsageError(f"--costly {argument}: {name!r} has one costly model, {files[name]}")
        files[name] = path
    return files


def _parted(argument: str) -> tuple[str, Path]:
    """``NAME=FILE`` in its parts; no name where there is none. A file's own name may have a ``=`` in it."""
    name, equals, file = argument.partition("=")
    return (name, Path(file)) if equals and not Path(argument).exists() else ("", Path(argument))


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


def _check_needed(server: Server) -> None:
    """Refuse a costly model for a model that has its own; a later version of the file may have its own."""
    for name, costly in server.settings.costly.items():
        entry = server.registry.get(name)
        if getattr(entry.model, "costly_", None) is not costly:
            raise UsageError(f"{entry.path} needs no --costly: there is no model outside the file")


def _announce(server: Server, host: str, port: int) -> None:
    """Say where the server is and what it serves."""
    from anytime.serve.examples import ExampleReader

    settings = server.settings
    shown = f"[{host}]" if ":" in host else host
    aim = "as long as it takes" if settings.slo is None else f"within {settings.slo * 1e3:g} ms"
    print(
        f"anytime serves http://{shown}:{port}/ {aim}, {settings.workers} worker{'s' * (settings.workers > 1)}"
    )
    for name, path in settings.models.items():
        entry = server.registry.get(name)
        pace, plan = entry.engine.pace, entry.model.plan_
        whole, reader = pace.seconds(0, plan.n_stages, 1), entry.tensors.reader
        taken = f"{whole * 1e6:.0f} us for all stages of a row"
        if isinstance(reader, ExampleReader):
            taken = f"labels {reader.kind}s, {whole * 1e3:.3g} ms for all stages of a small one"
        print(f"  {name}: {path}, {plan.n_stages} stages, {plan.n_features} columns, {taken}")
        if entry.engine.slo is None and settings.slo is not None:
            first = pace.seconds(0, int(pace.checkpoints[0]), 1)
            print(
                f"    its first labels take about {first * 1e3:.3g} ms: of time, only deadlines of requests are kept"
            )
    print(_hint(server, f"http://{shown}:{port}"), flush=True)
    if settings.token is None and host not in _LOCAL:
        print("  note: other machines can reach it, and it asks for no token (--token)", flush=True)


def _hint(server: Server, address: str) -> str:
    """A line that can be pasted, to try the first model; if that is long, where the page is."""
    from anytime.serve.examples import ExampleReader

    settings = server.settings
    name = next(iter(settings.models))
    reader = server.registry.get(name).tensors.reader
    if isinstance(reader, ExampleReader):
        return f"  open {address}/ in a browser to try it"
    row = [next(iter(reader.words[j]), None) if j in reader.words else 0 for j in range(reader.n_columns)]
    body = {"model": name, "row": row} if len(settings.models) > 1 else {"row": row}
    token = "" if settings.token is None else "-H 'Authorization: Bearer TOKEN' "
    line = f"  try: curl {address}/predict {token}-d {shlex.quote(json.dumps(body))}"
    return line if len(line) <= _WIDEST else f"  open {address}/ in a browser to try it"
