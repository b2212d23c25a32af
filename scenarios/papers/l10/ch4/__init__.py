"""L10 chapter 4: sequence queries over events out of order, on active instance stacks."""
