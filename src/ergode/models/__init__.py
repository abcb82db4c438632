"""What a user describes: frozen, validated, plain data. Knows no engine."""
