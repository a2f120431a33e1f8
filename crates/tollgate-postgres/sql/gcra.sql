-- GCRA: arrival time in microseconds, and a rest in parts of 1 / quota of one. (x, y) is the arrival time that counts, (z, w) the one after a charge.
IF NOT has OR a < now THEN
  x := now;
  y := 0;
ELSIF b >= r.quota THEN
  -- A part left over from a larger quota counts as the microsecond it is nearly.
  x := least(a + 1, LATEST);
  y := 0;
ELSE
  x := a;
  y := b;
END IF;
z := x + r.worth;
w := y + r.worth_part;
IF w >= r.quota THEN
  z := z + 1;
  w := w - r.quota;
END IF;
fits := r.units <= r.burst AND (z - now < r.tolerance OR (z - now = r.tolerance AND w <= r.tolerance_part));
IF r.verb = TAKE THEN
  level := r.burst::numeric * r.period - (x - now)::numeric * r.quota - y;
  room := div(greatest(level, 0), r.period);
END IF;
-- act
IF act = CHARGE THEN
  IF r.verb = TAKE THEN
    level := amount::numeric * r.period;
    z := x + div(level, r.quota);
    w := y + level % r.quota;
    IF w >= r.quota THEN
      z := z + 1;
      w := w - r.quota;
    END IF;
  END IF;
  a := least(z, LATEST);
  b := w;
  IF r.verb = CHARGE THEN
    -- The most that can be owed.
    level := MOST::numeric * r.period;
    x := least(now + div(level, r.quota), LATEST);
    y := CASE WHEN div(level, r.quota) > LATEST THEN 0 ELSE level % r.quota END;
    IF a > x OR (a = x AND b > y) THEN
      a := x;
      b := y;
    END IF;
  END IF;
  c := 0;
  has := true;
ELSIF act = PUT THEN
  a := least(now + r.worth, LATEST);
  b := r.worth_part;
  c := 0;
  has := amount > 0;
ELSIF act = REFUND THEN
  -- At most what has not run off since: these units are taken to have run off first.
  level := r.worth::numeric * r.quota + r.worth_part;
  IF r.receipt >= 0 AND r.receipt < now THEN level := level - (now - r.receipt)::numeric * r.quota; END IF;
  IF level > 0 AND (x > now OR y > 0) THEN
    level := (x - now)::numeric * r.quota + y - level;
    has := level > 0;
    IF has THEN
      a := least(now + div(level, r.quota), LATEST);
      b := level % r.quota;
    END IF;
    dirty := true;
  END IF;
END IF;
-- fresh
fresh_at := a + CASE WHEN b > 0 THEN 1 ELSE 0 END;
