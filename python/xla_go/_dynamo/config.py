"""What compiled functions do, for programs to change."""

# True: arguments are taken as they are, and one that is still pending raises FailedPreconditionError. False: what is pending is
# ended as a step of its own first. A function's first run, which traces it, takes both.
skip_input_data_check = False
