"""Models that users describe: frozen, validated, plain data. Imports no engine."""
