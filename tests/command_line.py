"""How tests call the command line."""

from typer.testing import CliRunner

from ergode.cli.app import app


def invoke(*arguments, **options):
    return CliRunner().invoke(app, [str(one) for one in arguments], **options)
