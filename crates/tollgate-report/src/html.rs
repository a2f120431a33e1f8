//! HTML files that load nothing.

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1c2330;--soft:#5b6575;--line:#d8dde6;--ground:#fff;--requests:#9fb4d6;--denied:#c8372d}\
@media(prefers-color-scheme:dark){:root{--ink:#e6eaf2;--soft:#98a2b3;--line:#333b49;--ground:#12161d;--requests:#47608a;--denied:#ef6a5f}}\
body{margin:2rem auto;max-width:62rem;padding:0 1rem;font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--ground)}\
h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2.5rem;border-top:1px solid var(--line);padding-top:1rem}h3{font-size:1rem}\
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}th,td{text-align:left;padding:.25rem .75rem .25rem 0;border-bottom:1px solid var(--line);white-space:nowrap}\
td.number,th.number{text-align:right}svg{width:100%;height:auto}svg text{fill:var(--soft);font:12px system-ui,sans-serif}\
.requests{fill:var(--requests)}.denied{fill:var(--denied)}.note{color:var(--soft)}.big{font-size:1.4rem;font-weight:600}\
.figures{display:flex;gap:2.5rem;flex-wrap:wrap}.scroll{overflow-x:auto}code{word-break:break-all}\
@media(max-width:40rem){.scroll svg{min-width:38rem}}\
.key::before{content:'';display:inline-block;width:.8em;height:.8em;margin-right:.3em}\
.key.allowed::before{background:var(--requests)}.key.refused::before{background:var(--denied)}.key{margin-right:1.5em}";

/// A whole page with this body. A policy in it forbids that anything is loaded or run.
///
/// ```
/// let page = tollgate_report::page("A report", "<h1>A report</h1>");
/// assert!(page.contains("default-src 'none'"));
/// ```
#[must_use]
pub fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>{}</title><style>{STYLE}</style></head><body>{body}</body></html>\n",
        escaped(title)
    )
}

/// Escapes markup.
///
/// ```
/// assert_eq!(tollgate_report::escaped("<b>"), "&lt;b&gt;");
/// ```
#[must_use]
pub fn escaped(text: &str) -> String {
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
