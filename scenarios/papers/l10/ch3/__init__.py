"""L10 chapter 3: patterns under a constraint, without a check, with the basic and the light one."""
