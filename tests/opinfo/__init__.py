"""Runs torch's operator database (OpInfo) on device xla and compares with torch's CPU kernels.

`samples` chooses and moves inputs, `comparison` compares, `exact` has functions to more digits than the CPU's, `entry` runs
one entry with one dtype, `worker` is the child process that does so for many, `runner` starts children and outlives them,
`expected` holds what is known to fail, `report` writes tables, and `python -m opinfo` is the command line.
"""
