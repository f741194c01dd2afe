"""What people see of a command: its text, how far it has come, bars of the history."""
