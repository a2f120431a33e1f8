-- Moving window: newest entry, running total, oldest entry that was kept by the last charge. The
-- entries are rows of the log, each with the running total before it. x is the time that counts, y
-- the oldest entry that does, z the total before that.
x := now;
y := NULL;
used := 0;
IF has THEN
  x := greatest(a, now);
  IF x - a < period THEN
    SELECT l.at, l.before, b - l.before INTO y, z, used FROM {schema}.log l
      WHERE l.key = keys[place] AND l.at >= greatest(c, x - period + 1) ORDER BY l.at LIMIT 1;
    used := coalesce(used, 0);
  END IF;
END IF;
fits := used + amount <= quota;
room := quota - used;
-- act
IF act = CHARGE THEN
  amount := least(amount, MOST - used);
  IF NOT has THEN
    b := 0;
  ELSIF c < coalesce(y, x) THEN
    -- Entries that have left, so many at a time: after a long silence they may be many.
    DELETE FROM {schema}.log l WHERE l.key = keys[place] AND l.at IN (
      SELECT o.at FROM {schema}.log o WHERE o.key = keys[place] AND o.at < coalesce(y, x) ORDER BY o.at LIMIT 100
    );
  END IF;
  IF NOT has OR a < x THEN
    INSERT INTO {schema}.log (key, at, before) VALUES (keys[place], x, b);
  END IF;
  a := x;
  b := b + amount;
  c := coalesce(y, x);
  used := used + amount;
  has := true;
  IF b > 4000000000000000000 THEN
    -- All totals from a base of zero, before they pass what a bigint holds.
    DELETE FROM {schema}.log l WHERE l.key = keys[place] AND l.at < c;
    UPDATE {schema}.log l SET before = l.before - (b - used) WHERE l.key = keys[place];
    b := used;
  END IF;
ELSIF act = PUT THEN
  DELETE FROM {schema}.log l WHERE l.key = keys[place];
  has := amount > 0;
  IF has THEN
    INSERT INTO {schema}.log (key, at, before) VALUES (keys[place], x, 0);
  END IF;
  a := x;
  b := amount;
  c := x;
  used := amount;
ELSIF act = REFUND AND mark < 0 THEN
  -- Without a receipt: from the newest entry backwards.
  IF used > 0 THEN
    amount := least(amount, used);
    b := b - amount;
    used := used - amount;
    DELETE FROM {schema}.log l WHERE l.key = keys[place] AND l.at >= y AND l.before >= b;
    SELECT max(l.at) INTO a FROM {schema}.log l WHERE l.key = keys[place] AND l.at >= c;
    has := a IS NOT NULL;
    dirty := true;
  END IF;
ELSIF act = REFUND THEN
  -- From the entry of that time, if it still counts. w is the total before it, then what it holds.
  z := mark;
  SELECT l.before INTO w FROM {schema}.log l WHERE l.key = keys[place] AND l.at = z AND l.at >= y;
  IF FOUND THEN
    SELECT coalesce(min(o.before), b) - w INTO w FROM (
      SELECT l.before FROM {schema}.log l WHERE l.key = keys[place] AND l.at > z ORDER BY l.at LIMIT 1
    ) o;
    amount := least(amount, w);
    IF amount = w THEN
      DELETE FROM {schema}.log l WHERE l.key = keys[place] AND l.at = z;
    END IF;
    UPDATE {schema}.log l SET before = l.before - amount WHERE l.key = keys[place] AND l.at > z;
    b := b - amount;
    used := used - amount;
    SELECT max(l.at) INTO a FROM {schema}.log l WHERE l.key = keys[place] AND l.at >= c;
    has := a IS NOT NULL;
    dirty := true;
  END IF;
END IF;
fresh_at := least(a + period, LATEST);
