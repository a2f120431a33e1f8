-- Decides plain hits on GCRA, the default algorithm: one statement for all keys, instead of one
-- step after another. One expression here does what `gcra.sql` does for a hit. All hits on a key
-- are charged together if all of them fit. A denied hit changes nothing, so the caller recognizes
-- it by the state. If only some of the hits on a key fit, the caller sends them to `ask`.
--
-- `keys` are different and in order, so rows are locked in that order and missing ones are inserted
-- after that, as in `ask`: no two batches can wait for each other. Each statement must look up one
-- key after the other, and not go through the table, however small that was when the plan was made.
-- So none is written as a join that could be done the other way round: `BETWEEN` is `=` that no
-- join can be planned by. `kinds` is for each key the index of its elements in the other lists:
-- `times` (below zero: now), the cost of all its hits as time, and the limit.
--
-- The answer is a row for each key: its place, whether its hits were charged, the state, and the
-- time. There is none where another session is inserting the row.
CREATE FUNCTION {schema}.hits(
  version integer, keys bytea[], kinds integer[], times bigint[],
  worths bigint[], worth_parts bigint[], quotas bigint[], tolerances bigint[], tolerance_parts bigint[]
) RETURNS TABLE (place bigint, charged boolean, a bigint, b bigint, clock bigint)
LANGUAGE plpgsql ROWS 50 SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $hits$
#variable_conflict use_column
DECLARE
  LATEST CONSTANT bigint := 4611686018427387903; -- the end of time
  answered bigint;
  more bigint;
BEGIN
  IF version <> {version} THEN
    RAISE EXCEPTION 'schema {schema} has version {version}, asked by version %', version USING ERRCODE = 'TG002';
  END IF;
  clock := extract(epoch FROM clock_timestamp()) * 1000000;
  RETURN QUERY UPDATE {schema}.counters s SET
      a = greatest(s.a, k.now) + k.worth + (CASE WHEN s.a < k.now THEN 0 ELSE s.b END + k.worth_part) / k.quota,
      b = (CASE WHEN s.a < k.now THEN 0 ELSE s.b END + k.worth_part) % k.quota,
      c = 0,
      expires = greatest(s.a, k.now) + k.worth + k.grace
    FROM (
      SELECT k.key, k.place, worths[k.kind] AS worth, worth_parts[k.kind] AS worth_part, quotas[k.kind] AS quota, tolerances[k.kind] AS tolerance,
        tolerance_parts[k.kind] AS tolerance_part, CASE WHEN times[k.kind] < 0 THEN clock ELSE times[k.kind] END AS now,
        -- As in `ask`, in the time of the server; and two microseconds for parts.
        CASE WHEN times[k.kind] < 0 THEN 1000002 ELSE clock - times[k.kind] + 3600000002 END AS grace
      FROM unnest(keys, kinds) WITH ORDINALITY AS k(key, kind, place) OFFSET 0
    ) k
    WHERE s.key BETWEEN k.key AND k.key AND s.a >= 0 AND s.a <= LATEST AND s.b >= 0 AND s.b < k.quota AND (
      greatest(s.a, k.now) + k.worth + (CASE WHEN s.a < k.now THEN 0 ELSE s.b END + k.worth_part) / k.quota,
      (CASE WHEN s.a < k.now THEN 0 ELSE s.b END + k.worth_part) % k.quota
    ) <= (k.now + k.tolerance, k.tolerance_part)
    RETURNING k.place, true, s.a, s.b, clock;
  GET DIAGNOSTICS answered = ROW_COUNT;
  IF answered < cardinality(keys) THEN
    -- The present states of the others. They may be later than the hits, if the statement had to
    -- wait for a row.
    clock := extract(epoch FROM clock_timestamp()) * 1000000;
    RETURN QUERY SELECT k.place, false, s.a, s.b, clock FROM unnest(keys) WITH ORDINALITY AS k(key, place),
      LATERAL (SELECT s.a, s.b FROM {schema}.counters s WHERE s.key = k.key OFFSET 0) s;
    GET DIAGNOSTICS more = ROW_COUNT;
    IF more < cardinality(keys) THEN
      RETURN QUERY INSERT INTO {schema}.counters AS s (key, a, b, c, expires)
        SELECT k.key, k.now + k.worth, k.worth_part, 0, k.now + k.worth + k.grace
        FROM (
          SELECT k.key, k.place, worths[k.kind] AS worth, worth_parts[k.kind] AS worth_part, CASE WHEN times[k.kind] < 0 THEN clock ELSE times[k.kind] END AS now,
            CASE WHEN times[k.kind] < 0 THEN 1000002 ELSE clock - times[k.kind] + 3600000002 END AS grace
          FROM unnest(keys, kinds) WITH ORDINALITY AS k(key, kind, place)
        ) k
        WHERE (SELECT true FROM {schema}.counters s WHERE s.key = k.key) IS NULL ORDER BY k.place
        ON CONFLICT DO NOTHING RETURNING array_position(keys, s.key)::bigint, true, s.a, s.b, clock;
    END IF;
  END IF;
END
$hits$;
