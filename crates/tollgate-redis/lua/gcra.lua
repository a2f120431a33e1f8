-- GCRA: "tat", the arrival time in microseconds, or "tat part" with a rest in parts of 1 / quota of a microsecond.
--
-- An arrival time may lie a thousand years ahead, where microseconds pass 2^53: here times and spans are (seconds, microseconds, part). What a
-- cost is worth as time comes as an argument; these spans add up exactly, so nothing has to be multiplied or divided.
if algorithm == 'gcra' then
  local quota, burst = ARGV[from] + 0, ARGV[from + 1] + 0
  local ws, wu, wp = ARGV[from + 5] + 0, ARGV[from + 6] + 0, ARGV[from + 7] + 0 -- what the cost is worth
  -- Of a charge that nobody checks: the most that can be owed. Of a take: how many, and the worth of 1, 2, 4, ... units.
  local more = from + 8
  cursor = more
  if op == 'charge' then cursor = more + 3 elseif op == 'take' then cursor = more + 1 + 3 * ARGV[more] end
  local now_s = floor(now / 1000000)
  local now_u = now - now_s * 1000000
  local s, u, p, changed

  local function plus(as, au, ap, bs, bu, bp)
    as, au, ap = as + bs, au + bu, ap + bp
    if ap >= quota then au, ap = au + 1, ap - quota end
    if au >= 1000000 then as, au = as + 1, au - 1000000 end
    -- The end of time: 2^62 - 1 microseconds.
    if as > 4611686018427 or (as == 4611686018427 and au > 387903) then as, au = 4611686018427, 387903 end
    return as, au, ap
  end

  local function before(as, au, ap, bs, bu, bp)
    return as < bs or (as == bs and (au < bu or (au == bu and ap < bp)))
  end

  -- The latest arrival time that is tolerated.
  local ls, lu, lp = plus(now_s, now_u, 0, ARGV[from + 2] + 0, ARGV[from + 3] + 0, ARGV[from + 4] + 0)

  return function(verb, units, at)
    if verb == 'load' then
      local text = call('GET', key)
      s = nil
      if not text then return end
      local tat, part = match(text, '^%d+$'), 0
      if not tat then tat, part = match(text, '^(%d+) (%d+)$') end
      if not tat then error('TOLLGATE the value of ' .. key .. ' is not a state of this limit') end
      p = part + 0
      local micros = tat + 0
      if micros < EXACT then
        u = fmod(micros, 1000000)
        s = (micros - u) / 1000000
      else
        s, u = string.sub(tat, 1, -7) + 0, string.sub(tat, -6) + 0
      end
      return
    elseif verb == 'save' then
      if not changed then return end
      if not s then return call('DEL', key) end
      local tat = s * 1000000 + u
      if p > 0 or tat >= EXACT then
        tat = s > 0 and format('%.0f%06.0f', s, u) or format('%.0f', u)
        if p > 0 then tat = tat .. format(' %.0f', p) end
      end
      return write(key, tat, (s - now_s) * 1000000 + (u - now_u) + 1)
    elseif verb == 'state' then
      return s, u, p
    elseif verb == 'fresh' then
      if not s then return true end
      local fs, fu = s, u
      if p > 0 then fs, fu = plus(s, u, 0, 0, 1, 0) end
      return fs < now_s or (fs == now_s and fu <= now_u)
    end
    -- The arrival time that counts: never in the past. A part left over from a larger quota counts as the microsecond it is nearly.
    local ds, du, dp = s, u, p
    if not s or s < now_s or (s == now_s and u < now_u) then
      ds, du, dp = now_s, now_u, 0
    elseif p >= quota then
      ds, du, dp = plus(s, u, 0, 0, 1, 0)
    end
    if verb == 'fits' then
      return units <= burst and not before(ls, lu, lp, plus(ds, du, dp, ws, wu, wp))
    elseif verb == 'charge' then
      s, u, p = plus(ds, du, dp, ws, wu, wp)
      changed = true
      if op == 'charge' then
        local ms, mu, mp = plus(now_s, now_u, 0, ARGV[more] + 0, ARGV[more + 1] + 0, ARGV[more + 2] + 0)
        if before(ms, mu, mp, s, u, p) then s, u, p = ms, mu, mp end
      end
    elseif verb == 'take' then
      -- The most that fits, and its worth: powers of two from the largest down.
      local granted = 0
      ws, wu, wp = 0, 0, 0
      for bit = ARGV[more] - 1, 0, -1 do
        local enough = granted + 2 ^ bit
        if enough <= min(units, burst) then
          local w = more + 1 + 3 * bit
          local ns, nu, np = plus(ws, wu, wp, ARGV[w] + 0, ARGV[w + 1] + 0, ARGV[w + 2] + 0)
          if not before(ls, lu, lp, plus(ds, du, dp, ns, nu, np)) then granted, ws, wu, wp = enough, ns, nu, np end
        end
      end
      return granted
    elseif verb == 'set' then
      s, changed = nil, true
      if units > 0 then s, u, p = plus(now_s, now_u, 0, ws, wu, wp) end
    elseif verb == 'refund' and s then
      -- At least zero.
      local function minus(as, au, ap, bs, bu, bp)
        as, au, ap = as - bs, au - bu, ap - bp
        if ap < 0 then au, ap = au - 1, ap + quota end
        if au < 0 then as, au = as - 1, au + 1000000 end
        if as < 0 then return 0, 0, 0 end
        return as, au, ap
      end

      -- At most what has not run off since: these units are taken to have run off first.
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
      s, changed = nil, true
      if ds > 0 or du > 0 or dp > 0 then s, u, p = plus(now_s, now_u, 0, ds, du, dp) end
    end
  end
end
