"""Integration methods: one step of a differential equation."""
