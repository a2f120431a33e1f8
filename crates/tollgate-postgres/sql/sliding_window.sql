-- Sliding window: start, count of the window before, count. (x, y, z) are the windows as they stand
-- now: shifted when the current one has ended, new when both have.
IF NOT has OR now - a >= period + (CASE WHEN c > 0 THEN period ELSE 0 END) THEN
  x := now;
  y := 0;
  z := 0;
ELSIF now - a < period THEN
  x := a;
  y := b;
  z := c;
ELSE
  x := a + period;
  y := c;
  z := 0;
END IF;
-- Units in use: what of the previous window is still in sight, rounded up, and the current one.
used := y + z;
IF y > 0 AND now > x THEN
  used := z + div(y::numeric * (period - (now - x)) + (period - 1), period);
END IF;
fits := used + amount <= quota;
room := quota - used;
-- act
IF act = CHARGE THEN
  a := x;
  b := y;
  c := least(z + amount, MOST);
  has := true;
ELSIF act = PUT THEN
  a := now;
  b := 0;
  c := amount;
  has := true;
ELSIF act = REFUND AND now - a < period + (CASE WHEN c > 0 THEN period ELSE 0 END) THEN
  IF mark < 0 OR mark = x THEN
    a := x;
    -- Without a receipt what the current window does not have comes from the one before.
    b := CASE WHEN mark < 0 THEN greatest(y - greatest(amount - z, 0), 0) ELSE y END;
    c := greatest(z - amount, 0);
    dirty := true;
  ELSIF mark = x - period THEN
    a := x;
    b := greatest(y - amount, 0);
    c := z;
    dirty := true;
  END IF;
END IF;
fresh_at := least(a + period + CASE WHEN c > 0 THEN period ELSE 0 END, LATEST);
