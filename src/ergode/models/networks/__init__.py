"""Contact networks: storage, random generators, conversion and temporal contacts."""
