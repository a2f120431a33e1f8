-- Everything that is asked of counters: a batch of steps, done one after another in one transaction.
--
-- It is the second definition of the algorithms; the first, in the crate `tollgate`, tells why they work. Only the steps are here: who asked computes the
-- fields of a decision from the state that is left.
--
-- `keys` are different and in order. Rows are locked in that order, then missing ones are made in that order, and who makes rows waits only for others
-- who do, never for one who still locks: so no two batches can wait for each other. `makes` says which keys need a row to be charged.
--
-- The answer: the time, then five numbers for each step: flags (1 allowed, 2 there is a state, 4 the row is not a state, 8 the row is locked by somebody else),
-- units charged, and the state. Null when somebody else made one of the keys first: nothing was done, ask again.
CREATE FUNCTION {schema}.ask(
  version integer,
  skip boolean, -- leave rows that are locked, rather than wait for them
  keys bytea[], makes boolean[],
  places integer[], verbs integer[], algorithms integer[], units bigint[], times bigint[],
  quotas bigint[], periods bigint[], bursts bigint[],
  worths bigint[], worth_parts bigint[], tolerances bigint[], tolerance_parts bigint[],
  receipts bigint[], marks bigint[]
) RETURNS bigint[] LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $ask$
#variable_conflict use_column
DECLARE
  LATEST CONSTANT bigint := 4611686018427387903; -- the end of time
  MOST CONSTANT bigint := 1000000000000000; -- counts saturate here
  -- Verbs of steps; some are also what comes of others.
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
  MOVING_WINDOW CONSTANT integer := 4;

  size integer := cardinality(keys);
  clock bigint;
  -- The rows, by place.
  there boolean[];
  locked boolean[];
  made boolean[] := array_fill(false, ARRAY[size]);
  changed boolean[] := made;
  all_a bigint[];
  all_b bigint[];
  all_c bigint[];
  ends bigint[] := array_fill(0::bigint, ARRAY[size]);
  missing integer;
  -- The state of one step.
  r record;
  k integer;
  has boolean;
  a bigint;
  b bigint;
  c bigint;
  now bigint;
  -- What each algorithm says of it.
  fits boolean;
  room bigint;
  used bigint;
  denies boolean; -- whether denied hits are charged
  x bigint;
  y bigint;
  z bigint;
  w bigint;
  level numeric;
  fresh_at bigint;
  -- What comes of it.
  act integer;
  amount bigint;
  allowed boolean;
  charged bigint;
  dirty boolean;
  flags integer;
  -- Of the group that is under way.
  refused boolean;
  spoiled integer := 0;
  last_verb integer := 0;

  answer bigint[] := array_fill(0::bigint, ARRAY[1 + 5 * cardinality(places)]);
  n integer := 1;
BEGIN
  IF version <> {version} THEN
    RAISE EXCEPTION 'schema {schema} has version {version}, asked by version %', version USING ERRCODE = 'TG002';
  END IF;
  IF skip THEN
    WITH mine AS MATERIALIZED (
      SELECT s.key, s.a, s.b, s.c FROM {schema}.counters s WHERE s.key = ANY (keys) ORDER BY s.key FOR UPDATE SKIP LOCKED
    ), stand AS MATERIALIZED (
      SELECT s.key FROM {schema}.counters s WHERE s.key = ANY (keys)
    )
    SELECT array_agg(m.a), array_agg(m.b), array_agg(m.c), array_agg(m.there), array_agg(m.locked)
      INTO all_a, all_b, all_c, there, locked
      FROM (SELECT m.a, m.b, m.c, m.key IS NOT NULL AS there, m.key IS NULL AND s.key IS NOT NULL AS locked
        FROM unnest(keys) WITH ORDINALITY AS k(key, place) LEFT JOIN mine m ON m.key = k.key LEFT JOIN stand s ON s.key = k.key
        ORDER BY k.place) m;
  ELSE
    locked := made;
    WITH mine AS MATERIALIZED (
      SELECT s.key, s.a, s.b, s.c FROM {schema}.counters s WHERE s.key = ANY (keys) ORDER BY s.key FOR UPDATE
    )
    SELECT array_agg(m.a), array_agg(m.b), array_agg(m.c), array_agg(m.there) INTO all_a, all_b, all_c, there
      FROM (SELECT m.a, m.b, m.c, m.key IS NOT NULL AS there
        FROM unnest(keys) WITH ORDINALITY AS k(key, place) LEFT JOIN mine m ON m.key = k.key
        ORDER BY k.place) m;
  END IF;

  SELECT count(*) INTO missing FROM unnest(makes, there, locked) AS k(makes, there, locked) WHERE k.makes AND NOT k.there AND NOT k.locked;
  IF missing > 0 THEN
    WITH mine AS (
      INSERT INTO {schema}.counters AS s (key, a, b, c, expires)
        SELECT k.key, 0, 0, 0, 0 FROM unnest(keys, makes, there, locked) AS k(key, makes, there, locked)
        WHERE k.makes AND NOT k.there AND NOT k.locked ORDER BY k.key
        ON CONFLICT DO NOTHING RETURNING s.key
    )
    SELECT array_agg(m.made), missing - count(*) FILTER (WHERE m.made) INTO made, missing
      FROM (SELECT m.key IS NOT NULL AS made FROM unnest(keys) WITH ORDINALITY AS k(key, place) LEFT JOIN mine m ON m.key = k.key ORDER BY k.place) m;
    IF missing > 0 THEN
      DELETE FROM {schema}.counters s USING unnest(keys, made) AS k(key, made) WHERE s.key = k.key AND k.made;
      RETURN NULL;
    END IF;
  END IF;

  -- Now that nobody else can come between.
  clock := extract(epoch FROM clock_timestamp()) * 1000000;
  answer[1] := clock;

  FOR r IN SELECT * FROM unnest(
      places, verbs, algorithms, units, times, quotas, periods, bursts, worths, worth_parts, tolerances, tolerance_parts, receipts, marks
    ) AS s(place, verb, algorithm, units, at, quota, period, burst, worth, worth_part, tolerance, tolerance_part, receipt, mark)
  LOOP
    k := r.place;
    has := there[k];
    a := all_a[k];
    b := all_b[k];
    c := all_c[k];
    now := r.at;
    IF now < 0 THEN now := clock; END IF;

    -- What cannot be decided spoils its whole group.
    flags := 0;
    IF locked[k] THEN
      flags := 8;
    ELSIF has AND NOT (a >= 0 AND b >= 0 AND c >= 0 AND a <= LATEST AND b <= LATEST AND c <= LATEST) THEN
      flags := 4;
    END IF;
    IF r.verb = TRY AND last_verb <> TRY THEN
      refused := false;
      spoiled := 0;
    END IF;
    last_verb := r.verb;
    IF r.verb = TRY OR r.verb = TOGETHER THEN
      spoiled := greatest(spoiled, flags);
      flags := spoiled;
    END IF;
    IF flags > 0 THEN
      IF r.verb <> TRY THEN
        answer[n + 1] := flags;
        n := n + 5;
      END IF;
      CONTINUE;
    END IF;

    denies := false;
    CASE r.algorithm
{view}
    END CASE;

    act := 0;
    allowed := true;
    charged := 0;
    amount := r.units;
    IF r.verb = TRY THEN
      IF NOT fits THEN refused := true; END IF;
      CONTINUE;
    ELSIF r.verb = HIT OR r.verb = TOGETHER OR (r.verb = TAKE AND amount = 0) THEN
      allowed := fits;
      act := ATTEMPT;
      IF amount > 0 AND (denies OR (fits AND (r.verb = HIT OR NOT refused))) THEN act := CHARGE; END IF;
    ELSIF r.verb = TAKE THEN
      allowed := room > 0;
      act := CHARGE;
      IF allowed THEN
        amount := least(room, amount);
      ELSE
        -- What it waits for is the first unit.
        amount := 1;
        IF NOT denies THEN act := ATTEMPT; END IF;
      END IF;
    ELSIF r.verb = PEEK THEN
      allowed := fits;
    ELSIF r.verb = CHARGE THEN
      act := CHARGE;
      IF amount = 0 THEN act := ATTEMPT; END IF;
    ELSIF r.verb <> REFUND OR (amount > 0 AND has) THEN
      act := r.verb;
    END IF;

    dirty := act = CHARGE OR act = PUT;
    IF act = CHARGE THEN charged := amount; END IF;
    IF act > 0 AND act <> RESET THEN
      CASE r.algorithm
{act}
      END CASE;
    END IF;
    IF dirty OR act = RESET THEN
      CASE r.algorithm
{fresh}
      END CASE;
      IF act = RESET THEN
        allowed := has AND fresh_at > now;
        has := false;
      END IF;
      IF NOT has THEN
        a := 0;
        b := 0;
        c := 0;
        used := 0;
        IF r.algorithm = MOVING_WINDOW THEN DELETE FROM {schema}.log l WHERE l.key = keys[k]; END IF;
      END IF;
      there[k] := has;
      changed[k] := true;
      all_a[k] := a;
      all_b[k] := b;
      all_c[k] := c;
      -- In the time of the server, and a little longer than it matters: its clock may be set back, or another server take over. Much longer where the
      -- time is not the server's.
      ends[k] := least(clock + greatest(fresh_at - now, 0), LATEST) + CASE WHEN r.at < 0 THEN 1000000 ELSE 3600000000 END;
    END IF;

    answer[n + 1] := CASE WHEN allowed THEN 1 ELSE 0 END + CASE WHEN has THEN 2 ELSE 0 END;
    answer[n + 2] := charged;
    IF has THEN
      IF r.algorithm = MOVING_WINDOW THEN
        -- The log stays here: what is used, the newest entry, and when a refused cost passes.
        answer[n + 3] := used;
        answer[n + 4] := a;
        IF NOT allowed AND amount <= r.quota THEN
          -- The last entry that must leave: before the first with which enough has left already.
          SELECT l.at INTO x FROM {schema}.log l
            WHERE l.key = keys[k] AND l.at >= y AND l.before >= z + used + amount - r.quota ORDER BY l.at LIMIT 1;
          SELECT l.at + r.period INTO x FROM {schema}.log l
            WHERE l.key = keys[k] AND l.at >= y AND l.at < coalesce(x, LATEST) ORDER BY l.at DESC LIMIT 1;
          answer[n + 5] := least(x, LATEST);
        END IF;
      ELSE
        answer[n + 3] := a;
        answer[n + 4] := b;
        answer[n + 5] := c;
      END IF;
    END IF;
    n := n + 5;
  END LOOP;

  IF true = ANY (changed) THEN
    UPDATE {schema}.counters s SET a = k.a, b = k.b, c = k.c, expires = k.expires
      FROM unnest(keys, changed, there, all_a, all_b, all_c, ends) AS k(key, changed, there, a, b, c, expires)
      WHERE s.key = k.key AND k.changed AND k.there;
  END IF;
  IF true = ANY (made) OR false = ANY (there) THEN
    DELETE FROM {schema}.counters s USING unnest(keys, changed, there, made) AS k(key, changed, there, made)
      WHERE s.key = k.key AND NOT k.there AND (k.changed OR k.made);
  END IF;
  RETURN answer[1:n];
END
$ask$;
