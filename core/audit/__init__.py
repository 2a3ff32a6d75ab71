"""One model that somebody has, audited in memory: no store, no cluster. What `smoothsweep.library` stands on."""
