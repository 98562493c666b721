"""The server: a judge that stays up between commands, behind a private socket."""
