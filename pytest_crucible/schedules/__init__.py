"""Times at which a command runs, and the files that make GitHub, systemd and cron run it then."""
