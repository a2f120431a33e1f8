-- The counters. Three numbers are the state of a key; what they mean depends on the algorithm,
-- which the key names:
--
--   gcra                                 arrival time, rest in parts of 1 / quota of a microsecond
--   fixed-window                         number of the window, count
--   fixed-window-per-key, elastic-window start or expiry of the window, count
--   sliding-window                       start, count of the window before, count
--   token-bucket, leaky-bucket           time, units in use, rest in parts of 1 / period of a unit
--   calendar                             start, end, count
--   budget                               count
--   moving-window                        newest entry, running total, oldest entry that counts
--
-- All times are microseconds since 1970. `expires` is when the row may go. It has no index, so that
-- updates stay in their page.
{create} IF NOT EXISTS {schema}.counters (
  key bytea PRIMARY KEY,
  a bigint NOT NULL,
  b bigint NOT NULL,
  c bigint NOT NULL,
  expires bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- The entries of moving windows: the time, and the running total before it.
{create} IF NOT EXISTS {schema}.log (
  key bytea,
  at bigint,
  before bigint NOT NULL,
  PRIMARY KEY (key, at)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

-- One row: the version of the schema, and the position of the cleaning.
CREATE TABLE IF NOT EXISTS {schema}.meta (
  version integer NOT NULL,
  cursor bytea NOT NULL DEFAULT '',
  cleaned bigint NOT NULL DEFAULT 0
);
INSERT INTO {schema}.meta (version) SELECT {version} WHERE NOT EXISTS (SELECT FROM {schema}.meta);
