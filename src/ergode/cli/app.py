"""Commands, their options and their exit codes.

0: success. 1: the model, plan or file is invalid or missing (one line says how), in every command.
2: the command line is invalid. 130: interrupted; the results computed so far are written.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ergode.core.errors import ErgodeError

FAILURE = 1
INTERRUPTED = 130

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Simulate many copies of a dynamical system at once, on every core or on a GPU.",
)

_Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
_Device = Annotated[str | None, typer.Option(help="auto, cpu, cpu:THREADS, cuda or cuda:INDEX.")]
_Replicates = Annotated[int | None, typer.Option(help="Number of replicates.")]
_Seed = Annotated[int | None, typer.Option(help="Seed of all random numbers.")]
_Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Where the dataset goes (.nc or .zarr).")
]
_Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but warnings and errors.")
]
_Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what an earlier run wrote.")]
_Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY.PATH=VALUE",
        show_default=False,
        help="Replace a value of the file, such as simulate.replicates=50; may be repeated.",
    ),
]
_Folder = Annotated[
    Path, typer.Option("--output", "-o", help="The folder that the page and the data go to.")
]


@contextmanager
def _exit_codes() -> Iterator[None]:
    try:
        yield
    except ErgodeError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(FAILURE) from None
    except OSError as error:  # for example: the disk is full
        typer.echo(f"error: {' '.join(str(error).split())}", err=True)
        raise typer.Exit(FAILURE) from None
    except MemoryError as error:
        typer.echo(
            f"error: the memory of this machine does not suffice: {error}; ask for fewer members, "
            "fewer times, or an output that is smaller, such as statistics",
            err=True,
        )
        raise typer.Exit(FAILURE) from None
    except KeyboardInterrupt as error:
        typer.echo(str(error) or "interrupted before anything was computed", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _print_version(wanted: bool) -> None:
    if wanted:
        import ergode

        typer.echo(f"ergode {ergode.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="The version.")
    ] = False,
) -> None:
    # A terminal may lack the characters of a title: they become question marks.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="A run file (TOML).", show_default=False)],
    device: _Device = None,
    replicates: _Replicates = None,
    seed: _Seed = None,
    output: _Output = None,
    overwrite: _Overwrite = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep finished parts, and go on from those kept.")
    ] = False,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler, whose workers compute.")
    ] = None,
    settings: _Settings = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check everything and show the plan; compute nothing.")
    ] = False,
    quiet: _Quiet = False,
    json: _Json = False,
) -> None:
    """Run what a TOML file describes; write a dataset and a figure."""
    with _exit_codes():
        from ergode.cli import run as command

        given = {"device": device, "replicates": replicates, "seed": seed}
        options = {name: value for name, value in given.items() if value is not None}
        asked = command.ask(
            file, options, output, overwrite=overwrite, resume=resume, settings=settings or (),
            outputs_too=not check,
        )  # fmt: skip
        show: command.Show = "json" if json else "nothing" if quiet else "text"
        if check:
            command.check(asked, show, resume=resume)
        elif command.run(asked, show, scheduler):
            raise typer.Exit(INTERRUPTED)


@app.command()
def plan(
    file: Annotated[Path, typer.Argument(help="A run file (TOML).", show_default=False)],
    device: Annotated[
        str, typer.Option(help="A device of this machine, or H200, H100, A100, ...")
    ] = "auto",
    count: Annotated[int, typer.Option(min=1, help="Number of such devices.")] = 1,
    time: Annotated[
        bool, typer.Option("--time", help="Run a few members on a core here; estimate the time.")
    ] = False,
    price: Annotated[
        float | None, typer.Option(min=0.0, help="Price of a device and hour, for the cost.")
    ] = None,
    replicates: _Replicates = None,
    settings: _Settings = None,
    json: _Json = False,
) -> None:
    """Show what a run would take on a device, which need not be here; write nothing."""
    with _exit_codes():
        from ergode.cli import plan as command
        from ergode.runfile.read import read

        options = {} if replicates is None else {"replicates": replicates}
        asked = read(file, options=options, overwrite=True, settings=settings or ())
        wanted = command.Wanted(device, count, price, time)
        command.plan(asked, wanted, "json" if json else "text")


@app.command()
def status(
    store: Annotated[Path, typer.Argument(help="The store of a run (.zarr).", show_default=False)],
    json: _Json = False,
) -> None:
    """Show how much of a run its store holds."""
    with _exit_codes():
        from ergode.cli.status import show

        show(store, as_json=json)


@app.command()
def schema() -> None:
    """Print the JSON schema of run files, for editors."""
    from json import dumps

    from ergode.runfile.schema import schema as make

    typer.echo(dumps(make(), indent=1))


@app.command()
def info(json: _Json = False) -> None:
    """Show installed versions and available devices."""
    with _exit_codes():
        from ergode.cli.info import show

        show(as_json=json)


@app.command()
def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all compiled kernels.")] = False,
    json: _Json = False,
) -> None:
    """Show how much the compiled kernels on disk take, or remove them."""
    with _exit_codes():
        from ergode.cli.cache import show

        show(clear=clear, as_json=json)


@app.command()
def warm(
    engines: Annotated[
        list[str] | None, typer.Argument(help="Engines; all if not given.", show_default=False)
    ] = None,
    device: _Device = None,
    json: _Json = False,
) -> None:
    """Compile the kernels that the models of an engine share, on all cores."""
    with _exit_codes():
        from ergode.cli.warm import show

        show(engines or (), device=device or "auto", as_json=json)


@app.command()
def tour(output: _Folder = Path(), overwrite: _Overwrite = False, json: _Json = False) -> None:
    """Run every engine on a small problem; write a page."""
    with _exit_codes():
        from ergode.cli.tour import show

        show(output, as_json=json, overwrite=overwrite)


@app.command()
def report(
    file: Annotated[Path, typer.Argument(help="A file of a result (.nc).", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The page; FILE with .html if not given."),
    ] = None,
    overwrite: _Overwrite = False,
) -> None:
    """Write the page of a result: what was run, how, how well, and its figure."""
    with _exit_codes():
        from ergode.cli.report import write

        write(file, output, overwrite=overwrite)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def bench(
    context: typer.Context,
    engine: Annotated[
        str | None, typer.Argument(help="An engine; all if not given.", show_default=False)
    ] = None,
) -> None:
    """Run the benchmarks of a source checkout.

    Options such as --quick, --device cuda or --json FILE are passed on to the benchmark.
    """
    with _exit_codes():
        from ergode.cli.bench import run as execute

        # A leading option is not an engine.
        rest = list(context.args)
        if engine is not None and engine.startswith("-"):
            rest.insert(0, engine)
            engine = None
        code = execute(engine, rest)
    if code:
        raise typer.Exit(code)


def main() -> None:
    """Entry point of the command ``ergode``."""
    app()
