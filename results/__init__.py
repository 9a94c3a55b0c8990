"""Raw numbers of runs (`claims/`, `archive/`) and the code that makes tables and figures of them (`make/`)."""
