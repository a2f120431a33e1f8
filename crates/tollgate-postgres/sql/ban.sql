-- Ban: a is the start of the window of denials, b the end of the ban, c the level * 2^40 + denials.
-- The caller passes the length of the first ban as `worth`, the longest as `tolerance`, and whether
-- attempts extend it as `denies`. x is the denials, y the level.
IF NOT has THEN
  a := 0;
  b := 0;
  c := 0;
END IF;
x := c & 1099511627775;
y := least(c >> 40, 63);
used := 0;
IF x > 0 AND now - a < period THEN used := x; END IF;
fits := now >= b;
room := 0;
-- act
IF now < b THEN
  x := least(now + CASE WHEN worth > (tolerance >> y::integer) THEN tolerance ELSE worth << y::integer END, LATEST);
  IF denies AND act IN (ATTEMPT, DENIAL) AND x > b THEN
    b := x;
    dirty := true;
  END IF;
ELSIF act = DENIAL THEN
  has := true;
  dirty := true;
  -- Nothing is left of the last ban.
  IF b = 0 OR now - b >= tolerance THEN
    b := 0;
    y := -1;
  END IF;
  IF used + 1 < quota THEN
    IF used = 0 THEN a := now; END IF;
    c := used + 1 + (greatest(y, 0) << 40);
  ELSE
    y := least(y + 1, 63);
    a := now;
    b := least(now + CASE WHEN worth > (tolerance >> y::integer) THEN tolerance ELSE worth << y::integer END, LATEST);
    c := y << 40;
    flags := 0;
  END IF;
END IF;
fresh_at := CASE WHEN b > 0 THEN least(b + tolerance, LATEST) ELSE 0 END;
IF c & 1099511627775 > 0 THEN fresh_at := greatest(fresh_at, least(a + period, LATEST)); END IF;
