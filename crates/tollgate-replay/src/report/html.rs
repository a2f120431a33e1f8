//! A report as one HTML file that loads nothing.

use std::fmt::Write as _;

use super::{
    CandidateReport, DemandReport, Report, SpreadReport, grouped, percent, span, svg, utc,
};

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1c2330;--soft:#5b6575;--line:#d8dde6;--ground:#fff;--requests:#9fb4d6;--denied:#c8372d}\
@media(prefers-color-scheme:dark){:root{--ink:#e6eaf2;--soft:#98a2b3;--line:#333b49;--ground:#12161d;--requests:#47608a;--denied:#ef6a5f}}\
body{margin:2rem auto;max-width:62rem;padding:0 1rem;font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--ground)}\
h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2.5rem;border-top:1px solid var(--line);padding-top:1rem}h3{font-size:1rem}\
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}th,td{text-align:left;padding:.25rem .75rem .25rem 0;border-bottom:1px solid var(--line)}\
td.number,th.number{text-align:right}svg{width:100%;height:auto}svg text{fill:var(--soft);font:12px system-ui,sans-serif}\
.requests{fill:var(--requests)}.denied{fill:var(--denied)}.note{color:var(--soft)}.big{font-size:1.4rem;font-weight:600}\
.figures{display:flex;gap:2.5rem;flex-wrap:wrap}.scroll{overflow-x:auto}code{word-break:break-all}";

impl Report {
    /// The report as one HTML file with charts.
    #[must_use]
    pub fn to_html(&self) -> String {
        let mut body = String::new();
        self.summary(&mut body);
        for candidate in &self.candidates {
            candidate.html(&mut body);
        }
        for demand in &self.demand {
            demand.html(&mut body);
        }
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
             <title>Replay of a log</title><style>{STYLE}</style></head><body>{body}</body></html>\n"
        )
    }

    fn summary(&self, out: &mut String) {
        let lines = &self.lines;
        let _ = write!(
            out,
            "<h1>Whom would the limit have affected?</h1><p>{} lines, {} keys, from {} to {} UTC.</p>",
            grouped(lines.lines),
            grouped(self.keys),
            utc(self.first),
            utc(self.last)
        );
        let notes = [
            (lines.unreadable, "lines could not be read"),
            (lines.filtered, "requests were left out by filters"),
            (lines.limited, "requests had been limited already when the log was written"),
            (lines.without_key, "requests had no key and share one"),
            (self.late, "requests came too late in the log to be put in order"),
            (self.beyond_max_keys, "requests were left out because there were too many keys"),
        ];
        for (count, text) in notes.into_iter().filter(|(count, _)| *count > 0) {
            let _ = write!(out, "<p class=\"note\">{} {text}.</p>", grouped(count));
        }
    }
}

impl CandidateReport {
    fn html(&self, out: &mut String) {
        let _ = write!(out, "<h2><code>{}</code></h2>", escaped(&self.name));
        if let Some(spread) = &self.spread {
            out.push_str("<p class=\"note\">The log states whole seconds. First all requests of a second at its start:</p>");
            self.early.html(out);
            out.push_str("<h3>Spread evenly over the second</h3>");
            spread.figures(out);
        } else {
            self.early.html(out);
        }
    }
}

impl SpreadReport {
    fn figures(&self, out: &mut String) {
        let _ = write!(
            out,
            "<div class=\"figures\"><div><div class=\"big\">{}</div>of {} requests denied ({})</div>\
             <div><div class=\"big\">{}</div>keys affected</div>",
            grouped(self.denied),
            grouped(self.requests),
            percent(self.denied, self.requests),
            grouped(self.affected_keys)
        );
        if let Some(longest) = &self.longest_run {
            let _ = write!(
                out,
                "<div><div class=\"big\">{}</div>denials in a row at most</div>",
                grouped(longest.denials.longest_run)
            );
        }
        out.push_str("</div>");
    }

    fn html(&self, out: &mut String) {
        self.figures(out);
        out.push_str(&svg::timeline(&self.timeline));
        if self.worst.is_empty() {
            return;
        }
        out.push_str(
            "<div class=\"scroll\"><table><thead><tr><th>key</th><th class=\"number\">denied</th>\
             <th class=\"number\">in a row</th><th>first (UTC)</th><th>last (UTC)</th></tr></thead><tbody>",
        );
        for affected in &self.worst {
            let denials = &affected.denials;
            let _ = write!(
                out,
                "<tr><td><code>{}</code></td><td class=\"number\">{}</td><td class=\"number\">{}</td><td>{}</td><td>{}</td></tr>",
                escaped(&affected.key),
                grouped(denials.denied),
                grouped(denials.longest_run),
                utc(denials.first),
                utc(denials.last)
            );
        }
        out.push_str("</tbody></table></div>");
    }
}

impl DemandReport {
    fn html(&self, out: &mut String) {
        let span = span(self.span);
        let _ = write!(
            out,
            "<h2>Most units of a key in any {span}</h2>{}<p>The highest peak is {} (<code>{}</code>). \
             These quotas leave so many keys unaffected, with a burst as large as the quota:</p>\
             <table><thead><tr><th>keys unaffected</th><th>quota</th></tr></thead><tbody>",
            svg::histogram(&self.histogram),
            grouped(self.highest),
            escaped(&self.highest_key)
        );
        for (thousandths, quota) in &self.suggested {
            let _ = write!(
                out,
                "<tr><td>{}.{} %</td><td><code>{}</code></td></tr>",
                thousandths / 10,
                thousandths % 10,
                super::quota(*quota, self.span)
            );
        }
        out.push_str("</tbody></table>");
    }
}

/// Escapes markup.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
