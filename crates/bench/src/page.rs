//! Pages for people: one file that needs nothing else, with no script, no font and no network.

use std::fmt::Write;

/// How each page ends.
pub const END: &str = "</main>\n</body>\n</html>\n";

/// How each page begins.
const HEAD: &str = include_str!("head.html");

/// The beginning of a page.
pub fn begin(title: &str, heading: &str) -> String {
    let head = HEAD.replace("{heading}", &text(heading));
    head.replace("{title}", &text(title))
}

/// Text as HTML, also between the quotes of an attribute.
///
/// ```
/// use thermocline_bench::page::text;
/// assert_eq!(text("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
/// ```
pub fn text(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '&' => html.push_str("&amp;"),
            '"' => html.push_str("&quot;"),
            c => html.push(c),
        }
    }
    html
}

/// A word as a shell takes it: quoted where it has to be.
///
/// ```
/// use thermocline_bench::page::quoted;
/// assert_eq!(["--num=1", "a b", "it's"].map(quoted), ["--num=1", "'a b'", "'it'\\''s'"]);
/// ```
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+%@".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Rows under columns. In a table of the class `numbers` all columns but the first are numbers.
pub fn table(class: &str, columns: &[String], rows: &[Vec<String>]) -> String {
    let mut html = format!("<table class=\"{}\">\n", text(class));
    row("th", columns, &mut html);
    for cells in rows {
        row("td", cells, &mut html);
    }
    html.push_str("</table>\n");
    html
}

fn row(tag: &str, cells: &[String], html: &mut String) {
    html.push_str("<tr>");
    for cell in cells {
        // Writing to a string cannot fail.
        let _ = write!(html, "<{tag}>{}</{tag}>", text(cell));
    }
    html.push_str("</tr>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        let quotes = ["--num=1", "a b", "", "it's", "$x"].map(quoted);
        assert_eq!(quotes, ["--num=1", "'a b'", "''", "'it'\\''s'", "'$x'"]);
    }

    #[test]
    fn what_names_have_in_them_is_text() {
        let page = begin("t&t", "<i>");
        assert!(page.contains("<title>t&amp;t</title>"));
        assert!(page.ends_with("<h1>&lt;i&gt;</h1>\n"));
        let rows = [vec!["a".to_string(), "1 < 2".to_string()]];
        let columns = ["x".to_string(), "<y>".to_string()];
        assert_eq!(
            table("numbers", &columns, &rows),
            "<table class=\"numbers\">\n<tr><th>x</th><th>&lt;y&gt;</th></tr>\n\
             <tr><td>a</td><td>1 &lt; 2</td></tr>\n</table>\n"
        );
    }
}
