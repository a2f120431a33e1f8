-- GCRA: "tat", the arrival time in microseconds, or "tat part" with a rest in parts of 1 / quota of a microsecond.
--
-- An arrival time may lie a thousand years ahead, where microseconds pass 2^53: here times and spans are (seconds, microseconds, part). What a
-- cost is worth as time comes as an argument; these spans add up exactly, so nothing has to be multiplied or divided.
local function gcra(key, op)
  local quota, burst = number(), number()
  local ts, tu, tp = number(), number(), number() -- the tolerance
  local ws, wu, wp = number(), number(), number() -- what the cost is worth
  local ms, mu, mp -- the most that can be owed, for a charge that nobody checks
  if op == 'charge' then ms, mu, mp = number(), number(), number() end
  local worths -- of 1, 2, 4, ... units, for a take
  if op == 'take' then
    worths = {}
    for bit = 1, number() do worths[bit] = { number(), number(), number() } end
  end
  local now_s = floor(now / 1000000)
  local now_u = now - now_s * 1000000
  local s, u, p, changed

  local function less(as, au, ap, bs, bu, bp)
    if as ~= bs then return as < bs end
    if au ~= bu then return au < bu end
    return ap < bp
  end

  local function plus(as, au, ap, bs, bu, bp)
    as, au, ap = as + bs, au + bu, ap + bp
    if ap >= quota then au, ap = au + 1, ap - quota end
    if au >= 1000000 then as, au = as + 1, au - 1000000 end
    -- The end of time: 2^62 - 1 microseconds.
    if as > 4611686018427 or (as == 4611686018427 and au > 387903) then as, au = 4611686018427, 387903 end
    return as, au, ap
  end

  -- At least zero.
  local function minus(as, au, ap, bs, bu, bp)
    as, au, ap = as - bs, au - bu, ap - bp
    if ap < 0 then au, ap = au - 1, ap + quota end
    if au < 0 then as, au = as - 1, au + 1000000 end
    if as < 0 then return 0, 0, 0 end
    return as, au, ap
  end

  -- The arrival time that counts: never in the past. A part left over from a larger quota counts as the microsecond it is nearly.
  local function due()
    if not s or s < now_s or (s == now_s and u < now_u) then return now_s, now_u, 0 end
    if p >= quota then return plus(s, u, 0, 0, 1, 0) end
    return s, u, p
  end

  local function tolerates(ns, nu, np)
    local as, au, ap = minus(ns, nu, np, now_s, now_u, 0)
    return not less(ts, tu, tp, as, au, ap)
  end

  local function after(bs, bu, bp)
    local ds, du, dp = due()
    return plus(ds, du, dp, bs, bu, bp)
  end

  return {
    capacity = burst,
    load = function()
      local text = call('GET', key)
      s = nil
      if not text then return end
      local tat, part = match(text, '^(%d+) ?(%d*)$')
      if not tat then error('TOLLGATE the value of ' .. key .. ' is not a state of this limit') end
      p = tonumber(part) or 0
      if #tat > 6 then
        s, u = tonumber(string.sub(tat, 1, -7)), tonumber(string.sub(tat, -6))
      else
        s, u = 0, tonumber(tat)
      end
    end,
    fits = function(cost)
      return cost <= burst and tolerates(after(ws, wu, wp))
    end,
    -- The most that fits, and its worth: powers of two from the largest down.
    take = function(cost)
      local units, gs, gu, gp = 0, 0, 0, 0
      for bit = #worths, 1, -1 do
        local more = units + 2 ^ (bit - 1)
        if more <= min(cost, burst) then
          local w = worths[bit]
          local ns, nu, np = plus(gs, gu, gp, w[1], w[2], w[3])
          if tolerates(after(ns, nu, np)) then units, gs, gu, gp = more, ns, nu, np end
        end
      end
      ws, wu, wp = gs, gu, gp
      return units
    end,
    fresh = function()
      if not s then return true end
      local fs, fu = s, u
      if p > 0 then fs, fu = plus(s, u, 0, 0, 1, 0) end
      return fs < now_s or (fs == now_s and fu <= now_u)
    end,
    charge = function()
      s, u, p = after(ws, wu, wp)
      changed = true
      if ms then
        local cs, cu, cp = plus(now_s, now_u, 0, ms, mu, mp)
        if less(cs, cu, cp, s, u, p) then s, u, p = cs, cu, cp end
      end
    end,
    -- At most what has not run off since: these units are taken to have run off first.
    refund = function(_, at)
      if not s then return end
      local ds, du, dp = due()
      ds, du, dp = minus(ds, du, dp, now_s, now_u, 0)
      local bs, bu, bp = ws, wu, wp
      if at and at < now then
        local run_off = now - at
        local run_off_s = floor(run_off / 1000000)
        bs, bu, bp = minus(bs, bu, bp, run_off_s, run_off - run_off_s * 1000000, 0)
      end
      local none = bs == 0 and bu == 0 and bp == 0
      if none or (ds == 0 and du == 0 and dp == 0) then return end
      ds, du, dp = minus(ds, du, dp, bs, bu, bp)
      changed = true
      if ds == 0 and du == 0 and dp == 0 then
        s = nil
      else
        s, u, p = plus(now_s, now_u, 0, ds, du, dp)
      end
    end,
    set = function(units)
      changed = true
      if units > 0 then
        s, u, p = plus(now_s, now_u, 0, ws, wu, wp)
      else
        s = nil
      end
    end,
    save = function()
      if not changed then return end
      if not s then return call('DEL', key) end
      local tat = s > 0 and format('%.0f%06.0f', s, u) or format('%.0f', u)
      if p > 0 then tat = tat .. format(' %.0f', p) end
      write(key, tat, (s - now_s) * 1000000 + (u - now_u) + 1)
    end,
    state = function() return s, u, p end,
  }
end
