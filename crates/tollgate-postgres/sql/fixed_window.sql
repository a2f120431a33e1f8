-- Fixed window: number of the window, count. Windows are numbered from 1970; x is the one that
-- counts, the clock's or the state's if that is later.
x := now / period;
used := 0;
IF has AND a >= x THEN
  x := a;
  used := b;
END IF;
fits := used + amount <= quota;
room := quota - used;
-- act
IF act = CHARGE THEN
  a := x;
  b := least(used + amount, MOST);
  c := 0;
  has := true;
ELSIF act = PUT THEN
  a := x;
  b := amount;
  c := 0;
  has := true;
ELSIF act = REFUND AND a = x AND (mark < 0 OR mark = a) THEN
  b := greatest(b - amount, 0);
  dirty := true;
END IF;
fresh_at := CASE WHEN a < LATEST / period THEN (a + 1) * period ELSE LATEST END;
