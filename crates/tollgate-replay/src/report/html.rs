//! A report as one HTML file that loads nothing.

use std::fmt::Write as _;

use tollgate_report::{
    Axis, escaped, grouped, histogram, page, percent, span, timeline_chart, utc,
};

use super::{CandidateReport, DemandReport, Report, SpreadReport};

impl Report {
    /// The report as one HTML file with charts.
    #[must_use]
    pub fn to_html(&self) -> String {
        let mut body = String::new();
        self.summary(&mut body);
        if self.why_empty().is_some() {
            return page("Whom would the limit have affected?", &body);
        }
        if self.candidates.len() > 1 {
            self.comparison(&mut body);
        }
        for candidate in &self.candidates {
            candidate.html(self.keys, &mut body);
        }
        for demand in &self.demand {
            demand.html(&mut body);
        }
        page("Whom would the limit have affected?", &body)
    }

    fn summary(&self, out: &mut String) {
        let lines = &self.lines;
        let _ = write!(
            out,
            "<h1>Whom would the limit have affected?</h1><p>{} lines, {} keys",
            grouped(lines.lines),
            grouped(self.keys)
        );
        let _ = match self.why_empty() {
            Some(why) => write!(out, ". There is nothing to replay: {}.</p>", escaped(&why)),
            None => write!(out, ", from {} to {} UTC.</p>", utc(self.first), utc(self.last)),
        };
        for (count, text) in self.notes() {
            let _ = write!(out, "<p class=\"note\">{} {text}.</p>", grouped(count));
        }
        for example in &lines.examples {
            let text = example.text.as_deref().unwrap_or_default();
            let _ = write!(
                out,
                "<p class=\"note\">Unreadable: {}:{} <code>{}</code></p>",
                escaped(&example.log),
                example.line,
                escaped(text)
            );
        }
    }

    fn comparison(&self, out: &mut String) {
        out.push_str(
            "<h2>Side by side</h2><div class=\"scroll\"><table><thead><tr><th>limit</th><th class=\"number\">denied</th>\
             <th class=\"number\">of requests</th><th class=\"number\">keys</th><th class=\"number\">of keys</th></tr></thead><tbody>",
        );
        for candidate in &self.candidates {
            let report = &candidate.early;
            let _ = write!(
                out,
                "<tr><td><code>{}</code></td><td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
                escaped(&candidate.name),
                grouped(report.denied),
                percent(report.denied, report.requests),
                grouped(report.affected_keys),
                percent(report.affected_keys, self.keys)
            );
        }
        out.push_str("</tbody></table></div>");
    }
}

impl CandidateReport {
    fn html(&self, keys: u64, out: &mut String) {
        let _ = write!(out, "<h2><code>{}</code></h2>", escaped(&self.name));
        if let Some(spread) = &self.spread {
            out.push_str("<p class=\"note\">The log states whole seconds. First all requests of a second at its start:</p>");
            self.early.html(keys, out);
            out.push_str("<h3>Spread evenly over the second</h3>");
            spread.figures(keys, out);
        } else {
            self.early.html(keys, out);
        }
    }
}

impl SpreadReport {
    fn figures(&self, keys: u64, out: &mut String) {
        let _ = write!(
            out,
            "<div class=\"figures\"><div><div class=\"big\">{}</div>of {} requests denied ({})</div>\
             <div><div class=\"big\">{}</div>of {} keys affected ({})</div>",
            grouped(self.denied),
            grouped(self.requests),
            percent(self.denied, self.requests),
            grouped(self.affected_keys),
            grouped(keys),
            percent(self.affected_keys, keys)
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

    fn html(&self, keys: u64, out: &mut String) {
        self.figures(keys, out);
        out.push_str(&timeline_chart(&self.timeline, Axis::Utc));
        out.push_str(
            "<p class=\"note\"><span class=\"key allowed\">allowed</span><span class=\"key refused\">denied</span></p>",
        );
        if self.worst.is_empty() {
            return;
        }
        out.push_str(
            "<div class=\"scroll\"><table><thead><tr><th>key</th><th class=\"number\">denied</th><th class=\"number\">of its requests</th>\
             <th class=\"number\">in a row</th><th>first (UTC)</th><th>last (UTC)</th></tr></thead><tbody>",
        );
        for affected in &self.worst {
            let denials = &affected.denials;
            let _ = write!(
                out,
                "<tr><td><code>{}</code></td><td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td>{}</td><td>{}</td></tr>",
                escaped(&affected.key),
                grouped(denials.denied),
                percent(denials.denied, affected.requests),
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
            histogram(&self.histogram),
            grouped(self.highest),
            escaped(&self.highest_key)
        );
        for (thousandths, quota) in &self.suggested {
            let _ = write!(
                out,
                "<tr><td>{} %</td><td><code>{}</code></td></tr>",
                super::share(*thousandths),
                super::quota(*quota, self.span)
            );
        }
        out.push_str("</tbody></table>");
    }
}
