-- Decides all operations on counters: a batch of steps, one after another, in one transaction.
--
-- It is the second definition of the algorithms; the first, in the crate `tollgate`, explains why
-- they work. Only the steps are here: the caller computes the fields of a decision from the new
-- state.
--
-- `keys` are different and in order. Rows are locked in that order, then missing ones are inserted
-- in that order. A batch that inserts waits only for other batches that insert, never for one that
-- still locks, so no two batches can wait for each other. `makes` says which keys need a row to be
-- charged.
--
-- The answer is a row for each step: flags (1 allowed, 2 there is a state, 4 the row is not a
-- state, 8 another session has locked the row, 32 the time is in none of the caller's calendar
-- windows), units charged, the state, and the time. One row with flags 16 when another session
-- inserted one of the keys first: nothing was done, the caller must send the batch again.
--
-- Each statement of PL/pgSQL costs as much as several calculations, so the path of a plain hit is
-- kept short: the loop itself reads arguments and state, and the answer is what the variables hold.
-- Plans are made once for each session and must not depend on how large the table was then.
CREATE FUNCTION {schema}.ask(
  version integer,
  skip boolean, -- leave rows that are locked, rather than wait for them
  keys bytea[], makes boolean[],
  places integer[], repeats boolean[], verbs integer[], algorithms integer[], amounts bigint[], times bigint[],
  quotas bigint[], periods bigint[], bursts bigint[], denials boolean[],
  worths bigint[], worth_parts bigint[], tolerances bigint[], tolerance_parts bigint[],
  receipts bigint[], marks bigint[]
) RETURNS TABLE (flags integer, charged bigint, a bigint, b bigint, c bigint, clock bigint)
LANGUAGE plpgsql ROWS 50 SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $ask$
#variable_conflict use_column
DECLARE
  LATEST CONSTANT bigint := 4611686018427387903; -- the end of time
  MOST CONSTANT bigint := 1000000000000000; -- counts saturate here
  -- Verbs of steps. Some replace another verb while the batch runs.
  HIT CONSTANT integer := 1;
  PEEK CONSTANT integer := 2;
  TAKE CONSTANT integer := 3;
  CHARGE CONSTANT integer := 4;
  REFUND CONSTANT integer := 5;
  PUT CONSTANT integer := 6;
  RESET CONSTANT integer := 7;
  TRY CONSTANT integer := 8; -- of a group: would it pass?
  TOGETHER CONSTANT integer := 9; -- of a group: a hit if all would pass, else refused
  ATTEMPT CONSTANT integer := 10; -- a hit that charges nothing
  DENIAL CONSTANT integer := 11; -- a denial that a ban counts

  missing bigint;
  -- The rows, by place: their tid, whether they hold a state, why they cannot be used, the state,
  -- and when it expires if it was changed.
  rows tid[];
  there boolean[];
  stuck integer[];
  all_a bigint[];
  all_b bigint[];
  all_c bigint[];
  ends bigint[] := array_fill(0::bigint, ARRAY[cardinality(keys)]);
  -- One step.
  place integer;
  repeated boolean; -- an earlier step had the same key
  verb integer;
  algorithm integer;
  amount bigint;
  now bigint;
  grace bigint;
  quota bigint;
  period bigint;
  burst bigint;
  denies boolean; -- denied hits are charged
  worth bigint;
  worth_part bigint;
  tolerance bigint;
  tolerance_part bigint;
  receipt bigint;
  mark bigint;
  has boolean;
  -- Set by the algorithm.
  fits boolean;
  room bigint;
  used bigint;
  x bigint;
  y bigint;
  z bigint;
  w bigint;
  level numeric;
  fresh_at bigint;
  -- The result of the step.
  act integer;
  dirty boolean;
  -- The present group.
  asking boolean := false;
  refused boolean := false;
  banned boolean := false;
  since integer := 0; -- steps since one was refused
  spoiled integer := 0;
BEGIN
  IF version <> {version} THEN
    RAISE EXCEPTION 'schema {schema} has version {version}, asked by version %', version USING ERRCODE = 'TG002';
  END IF;
  IF skip THEN
    WITH mine AS MATERIALIZED (
      SELECT s.ctid, s.key, s.a, s.b, s.c FROM {schema}.counters s WHERE s.key = ANY (keys) ORDER BY s.key FOR UPDATE SKIP LOCKED
    ), stand AS MATERIALIZED (
      SELECT s.key FROM {schema}.counters s WHERE s.key = ANY (keys)
    )
    SELECT array_agg(m.ctid), array_agg(m.a), array_agg(m.b), array_agg(m.c), array_agg(m.there), array_agg(m.stuck),
        count(*) FILTER (WHERE m.makes AND NOT m.there AND m.stuck = 0)
      INTO rows, all_a, all_b, all_c, there, stuck, missing
      FROM (SELECT m.ctid, m.a, m.b, m.c, k.makes, m.key IS NOT NULL AS there,
          CASE WHEN m.key IS NULL AND s.key IS NOT NULL THEN 8 WHEN least(m.a, m.b, m.c) < 0 OR greatest(m.a, m.b, m.c) > LATEST THEN 4 ELSE 0 END AS stuck
        FROM unnest(keys, makes) WITH ORDINALITY AS k(key, makes, place) LEFT JOIN mine m ON m.key = k.key LEFT JOIN stand s ON s.key = k.key
        ORDER BY k.place) m;
  ELSE
    WITH mine AS MATERIALIZED (
      SELECT s.ctid, s.key, s.a, s.b, s.c FROM {schema}.counters s WHERE s.key = ANY (keys) ORDER BY s.key FOR UPDATE
    )
    SELECT array_agg(m.ctid), array_agg(m.a), array_agg(m.b), array_agg(m.c), array_agg(m.there), array_agg(m.stuck),
        count(*) FILTER (WHERE m.makes AND NOT m.there)
      INTO rows, all_a, all_b, all_c, there, stuck, missing
      FROM (SELECT m.ctid, m.a, m.b, m.c, k.makes, m.key IS NOT NULL AS there,
          CASE WHEN least(m.a, m.b, m.c) < 0 OR greatest(m.a, m.b, m.c) > LATEST THEN 4 ELSE 0 END AS stuck
        FROM unnest(keys, makes) WITH ORDINALITY AS k(key, makes, place) LEFT JOIN mine m ON m.key = k.key
        ORDER BY k.place) m;
  END IF;

  IF missing > 0 THEN
    WITH mine AS (
      INSERT INTO {schema}.counters AS s (key, a, b, c, expires)
        SELECT k.key, 0, 0, 0, 0 FROM unnest(keys, makes, there, stuck) AS k(key, makes, there, stuck)
        WHERE k.makes AND NOT k.there AND k.stuck = 0 ORDER BY k.key
        ON CONFLICT DO NOTHING RETURNING s.ctid, s.key
    )
    SELECT array_agg(coalesce(m.mine, m.row)), missing - count(m.mine) INTO rows, missing
      FROM (SELECT m.ctid AS mine, k.row FROM unnest(keys, rows) WITH ORDINALITY AS k(key, row, place) LEFT JOIN mine m ON m.key = k.key ORDER BY k.place) m;
    IF missing > 0 THEN
      DELETE FROM {schema}.counters s USING unnest(rows, there) AS k(row, there) WHERE s.ctid = k.row AND NOT k.there;
      flags := 16;
      RETURN NEXT;
      RETURN;
    END IF;
  END IF;

  -- Read while the rows are locked.
  clock := extract(epoch FROM clock_timestamp()) * 1000000;

  FOR place, repeated, verb, algorithm, amount, now, grace, quota, period, burst, denies, worth, worth_part, tolerance, tolerance_part, receipt, mark,
      has, a, b, c, flags IN
    SELECT i.place, i.repeated, i.verb, i.algorithm, i.amount, CASE WHEN i.at < 0 THEN clock ELSE i.at END,
      -- A state is kept a little longer than it matters: the clock may be set back, or another
      -- server take over. Much longer where the time is not the server's.
      CASE WHEN i.at < 0 THEN 1000000 ELSE 3600000000 END,
      i.quota, i.period, i.burst, i.denies, i.worth, i.worth_part, i.tolerance, i.tolerance_part, i.receipt, i.mark,
      there[i.place], all_a[i.place], all_b[i.place], all_c[i.place], stuck[i.place]
    FROM (
      SELECT places[n] AS place, repeats[n] AS repeated, verbs[n] AS verb, algorithms[n] AS algorithm, amounts[n] AS amount, times[n] AS at, quotas[n] AS quota,
        periods[n] AS period, bursts[n] AS burst, denials[n] AS denies, worths[n] AS worth, worth_parts[n] AS worth_part, tolerances[n] AS tolerance,
        tolerance_parts[n] AS tolerance_part, receipts[n] AS receipt, marks[n] AS mark
      FROM generate_series(1, cardinality(places)) AS n
    ) i
  LOOP
    IF repeated THEN
      has := there[place];
      a := all_a[place];
      b := all_b[place];
      c := all_c[place];
    END IF;
    IF algorithm = {calendar_window} AND (now < worth OR now >= tolerance_part) THEN flags := greatest(flags, 32); END IF;
    -- A step that cannot be decided makes its whole group undecided.
    IF flags > 0 OR verb >= TRY THEN
      IF verb = TRY AND NOT asking THEN
        refused := false;
        banned := false;
        since := 1000;
        spoiled := 0;
      END IF;
      asking := verb = TRY;
      IF verb >= TRY THEN
        spoiled := greatest(spoiled, flags);
        flags := spoiled;
      END IF;
      IF flags > 0 THEN
        IF NOT asking THEN RETURN NEXT; END IF;
        CONTINUE;
      END IF;
    END IF;

    CASE algorithm
{view}
    END CASE;

    charged := amount;
    IF verb = HIT AND fits AND amount > 0 THEN
      flags := 1;
      act := CHARGE;
    ELSIF verb = TRY THEN
      IF NOT fits AND algorithm = {ban} THEN
        banned := true;
      ELSIF NOT fits THEN
        refused := true;
      END IF;
      CONTINUE;
    ELSIF verb = HIT OR verb = TOGETHER OR (verb = TAKE AND amount = 0) THEN
      flags := fits::integer;
      act := ATTEMPT;
      IF amount > 0 AND (denies OR (verb = TOGETHER AND fits AND NOT refused)) THEN act := CHARGE; END IF;
      IF verb = TOGETHER AND (banned OR refused) THEN
        -- A ban counts refusals of the steps before it, of which the caller passes the number as
        -- `burst`. While a key is banned, nothing but bans is attempted.
        IF NOT fits THEN since := -1; END IF;
        IF banned AND algorithm <> {ban} THEN
          act := 0;
        ELSIF NOT banned AND algorithm = {ban} THEN
          act := CASE WHEN since < burst THEN DENIAL ELSE 0 END;
        END IF;
        since := since + 1;
      END IF;
    ELSIF verb = TAKE THEN
      flags := (room > 0)::integer;
      act := CHARGE;
      IF room > 0 THEN
        amount := least(room, amount);
      ELSE
        -- It waits for the first unit.
        amount := 1;
        IF NOT denies THEN act := ATTEMPT; END IF;
      END IF;
      charged := amount;
    ELSIF verb = PEEK THEN
      flags := fits::integer;
      act := 0;
    ELSE
      flags := 1;
      act := verb;
      IF verb = CHARGE AND amount = 0 THEN act := ATTEMPT; END IF;
      IF verb = REFUND AND (amount = 0 OR NOT has) THEN act := 0; END IF;
    END IF;

    IF act = CHARGE THEN
      dirty := true;
    ELSE
      dirty := act = PUT;
      charged := 0;
    END IF;
    IF act > 0 THEN
      CASE algorithm
{act}
      END CASE;
      IF act = RESET THEN
        flags := (has AND fresh_at > now)::integer;
        dirty := has;
        has := false;
      END IF;
    END IF;
    IF dirty THEN
      IF NOT has THEN
        a := 0;
        b := 0;
        c := 0;
        used := 0;
        IF algorithm = {moving_window} THEN DELETE FROM {schema}.log l WHERE l.key = keys[place]; END IF;
      END IF;
      there[place] := has;
      all_a[place] := a;
      all_b[place] := b;
      all_c[place] := c;
      -- By the server's clock.
      ends[place] := least(clock + greatest(fresh_at - now, 0), LATEST) + grace;
    END IF;

    IF has THEN
      flags := flags + 2;
      IF algorithm = {moving_window} THEN
        -- The log stays here. The answer is the units in use, the newest entry, and when the
        -- refused cost passes, or one unit if nothing is left.
        z := b - used;
        y := coalesce(y, x);
        b := a;
        a := used;
        c := 0;
        IF flags = 3 AND used >= quota THEN amount := 1; END IF;
        IF (flags = 2 AND amount <= quota) OR (flags = 3 AND used >= quota) THEN
          -- The last entry that must leave: before the first with which enough has left already.
          SELECT l.at INTO x FROM {schema}.log l
            WHERE l.key = keys[place] AND l.at >= y AND l.before >= z + used + amount - quota ORDER BY l.at LIMIT 1;
          SELECT least(l.at + period, LATEST) INTO c FROM {schema}.log l
            WHERE l.key = keys[place] AND l.at >= y AND l.at < coalesce(x, LATEST) ORDER BY l.at DESC LIMIT 1;
        END IF;
      END IF;
    END IF;
    RETURN NEXT;
  END LOOP;

  UPDATE {schema}.counters s SET a = k.a, b = k.b, c = k.c, expires = k.expires
    FROM unnest(rows, there, all_a, all_b, all_c, ends) AS k(row, there, a, b, c, expires)
    WHERE s.ctid = k.row AND k.there AND k.expires > 0;
  -- Deletes rows without a state: it was reset, or never written.
  IF false = ANY (there) THEN
    DELETE FROM {schema}.counters s USING unnest(rows, there) AS k(row, there) WHERE s.ctid = k.row AND NOT k.there;
  END IF;
END
$ask$;
