//! A store of tollgate that outlives the process: memory decides, a file keeps.
