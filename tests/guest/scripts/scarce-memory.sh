# Memory that is used up, or in single frames only.
scarce-memory || exit 1
