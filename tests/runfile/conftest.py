import json
import tomllib
from importlib import import_module

import pytest
from jsonschema import Draft202012Validator

from ergode.runfile.schema import schema


@pytest.fixture(scope="session")
def validator():
    """Tells whether the values of a run file have the form of the schema."""
    Draft202012Validator.check_schema(schema())
    return Draft202012Validator(schema())


@pytest.fixture(autouse=True)
def _files_that_are_read_are_valid(monkeypatch, validator):
    """Whatever a test reads as a run file, the schema accepts."""
    module = import_module("ergode.runfile.read")

    def checked(path, *rest):
        values = tomllib.loads(path.read_text())
        validator.validate(json.loads(json.dumps(values, default=str)))
        return original(path, *rest)

    original = module.RunFile
    monkeypatch.setattr(module, "RunFile", checked)
