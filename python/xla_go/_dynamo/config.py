"""What compiled functions do, for programs to change."""

# True: arguments are taken as they are, and one that is still pending raises FailedPreconditionError. False: what is pending is
# ended as a step of its own first. A function's first run, which traces it, takes both.
skip_input_data_check = False

# True: sizes that change are padded to powers of two where that is right, so that few programs serve all of them. False: each size
# has a program of its own, and no argument goes through host memory. It holds for what is compiled afterwards.
# compat.install() sets False: programs for torch_xla choose their sizes themselves, and run each once to have it compiled.
pad_sizes = True
