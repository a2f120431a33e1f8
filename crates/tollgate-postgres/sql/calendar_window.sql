-- Calendar window: start, end, count. The caller sends four edges, of the windows before, at and
-- after its own time: worth, worth_part, tolerance, tolerance_part. (x, y) is the window that
-- counts, with the end that it has after a hit. An end before the start is that of an earlier
-- window.
IF now < worth_part THEN
  x := worth;
  y := worth_part;
ELSIF now < tolerance THEN
  x := worth_part;
  y := tolerance;
ELSE
  x := tolerance;
  y := tolerance_part;
END IF;
used := 0;
IF has AND now < b THEN
  used := c;
  x := a;
  IF y <= a OR y > b THEN y := b; END IF;
ELSIF has THEN
  x := greatest(x, b);
END IF;
fits := used + amount <= quota;
room := quota - used;
-- act
IF act = CHARGE THEN
  a := x;
  b := y;
  c := least(used + amount, MOST);
  has := true;
ELSIF act = PUT THEN
  a := x;
  b := y;
  c := amount;
  has := true;
ELSIF act = ATTEMPT AND has AND now < b AND y < b THEN
  b := y;
  dirty := true;
ELSIF act = REFUND AND now < b AND (mark < 0 OR mark = a) THEN
  c := greatest(c - amount, 0);
  dirty := true;
END IF;
fresh_at := b;
