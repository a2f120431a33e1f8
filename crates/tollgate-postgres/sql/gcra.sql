-- GCRA: arrival time in microseconds, and a rest in parts of 1 / quota of one. (x, y) is the
-- arrival time that counts, (z, w) the one after a charge.
x := CASE WHEN NOT has OR a < now THEN now WHEN b >= quota THEN a + 1 ELSE a END;
-- A part left over from a larger quota counts as the microsecond it is nearly.
y := CASE WHEN has AND a >= now AND b < quota THEN b ELSE 0 END;
w := y + worth_part;
z := x + worth + CASE WHEN w >= quota THEN 1 ELSE 0 END;
w := CASE WHEN w >= quota THEN w - quota ELSE w END;
fits := amount <= burst AND (z - now < tolerance OR (z - now = tolerance AND w <= tolerance_part));
IF verb = TAKE THEN
  level := burst::numeric * period - (x - now)::numeric * quota - y;
  room := div(greatest(level, 0), period);
END IF;
-- act
IF act = CHARGE THEN
  IF verb = TAKE THEN
    level := amount::numeric * period;
    z := x + div(level, quota);
    w := y + level % quota;
    IF w >= quota THEN
      z := z + 1;
      w := w - quota;
    END IF;
  END IF;
  a := least(z, LATEST);
  b := w;
  IF verb = CHARGE THEN
    -- The most that can be owed.
    level := MOST::numeric * period;
    x := least(now + div(level, quota), LATEST);
    y := CASE WHEN div(level, quota) > LATEST THEN 0 ELSE level % quota END;
    IF a > x OR (a = x AND b > y) THEN
      a := x;
      b := y;
    END IF;
  END IF;
  c := 0;
  has := true;
ELSIF act = PUT THEN
  a := least(now + worth, LATEST);
  b := worth_part;
  c := 0;
  has := amount > 0;
ELSIF act = REFUND THEN
  -- At most what has not run off since: these units are taken to have run off first.
  level := worth::numeric * quota + worth_part;
  IF receipt >= 0 AND receipt < now THEN level := level - (now - receipt)::numeric * quota; END IF;
  IF level > 0 AND (x > now OR y > 0) THEN
    level := (x - now)::numeric * quota + y - level;
    has := level > 0;
    IF has THEN
      a := least(now + div(level, quota), LATEST);
      b := level % quota;
    END IF;
    dirty := true;
  END IF;
END IF;
fresh_at := a + CASE WHEN b > 0 THEN 1 ELSE 0 END;
