//! `bench --report`, from outside: one file with all that a run found.

use serde_json::json;

use crate::support::Store;

/// Text as the page has it.
fn text(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// The page of a run of `bench`: it has all that was printed.
fn page(store: &Store, arguments: &[&str]) -> String {
    let all = [&["bench"], arguments, &["--report", "page.html"]].concat();
    let run = store.run(&all);
    assert_eq!(run.code, 0, "{}", run.err);
    let page = std::fs::read_to_string(store.path().with_file_name("page.html")).unwrap();
    is_one_file(&page);
    let (printed, last) = run.out.trim_end().rsplit_once('\n').unwrap();
    assert_eq!(last, "page.html shows all of that");
    assert!(
        page.contains(&text(printed)),
        "{printed}\nis not in\n{page}"
    );
    page
}

/// Every tag is closed, in turn, and nothing is fetched from anywhere.
fn is_one_file(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in page.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap();
        if tag.starts_with('!') || tag.ends_with('/') {
            continue;
        }
        match tag.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(closed)),
            None => open.push(tag.split_whitespace().next().unwrap()),
        }
    }
    assert_eq!(open, [""; 0]);
    for fetched in ["<script", "<link", "src=", "href=", "url(", "@import"] {
        assert!(!page.contains(fetched), "{fetched}");
    }
    let names = page.matches("http://www.w3.org/2000/svg").count();
    assert_eq!(page.matches("://").count(), names);
}

#[test]
fn a_page_has_the_command_the_options_the_numbers_and_two_plots() {
    let store = Store::new();
    let run = ["readrandom", "--num", "300", "--reads", "500"];
    let name = "a<b>&\"c\"";
    let html = page(&store, &[&run[..], &["--db", name]].concat());
    assert_eq!(html.matches("<svg").count(), 2);
    let command =
        format!("bench readrandom --num 300 --reads 500 --db '{name}' --report page.html");
    for said in [
        format!("<pre>thermocline {}</pre>", text(&command)),
        "<td>--num</td><td>300</td>".to_string(),
        "<td>--distribution</td><td>uniform</td>".to_string(),
        format!("<td>--db</td><td>{}</td>", text(name)),
        "<td>preset</td><td>thermocline</td>".to_string(),
        "<td>kind of the region</td>".to_string(),
        "&quot;found&quot;: 500".to_string(),
        ">\n99 %\n".to_string(),
        ">\noperations a second\n".to_string(),
    ] {
        assert!(html.contains(&said), "no '{said}' in\n{html}");
    }
    assert!(!html.contains("a<b>"));
}

#[test]
fn each_kind_of_operations_has_a_line_and_a_page_takes_the_place_of_an_older_one() {
    let store = Store::new();
    let cases: [(&[&str], &[&str]); 4] = [
        (&["ycsb-a", "--num", "200"], &["read", "update"]),
        (&["deviceread", "--num", "1000", "--reads", "50"], &[]),
        (
            &["orders", "--orders", "100", "--transactions", "500"],
            &["place", "advance"],
        ),
        (
            &["randomtransaction", "--num", "20", "--transactions", "50"],
            &[],
        ),
    ];
    for (workload, kinds) in cases {
        let html = page(&store, workload);
        let title = format!("<title>thermocline bench {}</title>", workload[0]);
        assert!(html.contains(&title), "{title}");
        assert_eq!(html.matches("<svg").count(), 2, "{title}");
        for kind in kinds {
            assert!(html.contains(&format!(">\n{kind}\n")), "{kind}: {html}");
        }
    }
    assert_eq!(store.names(), ["page.html"]);
    let page = ["--report", "pages/json.html", "--json"];
    let run = store.run(&[&["bench", "fillseq", "--num", "10"], &page[..]].concat());
    assert_eq!(
        (run.code, &run.json()["ops"]),
        (0, &json!(10)),
        "{}",
        run.err
    );
    assert_eq!(store.names(), ["page.html", "pages"]);
}

#[test]
fn a_page_of_many_runs_has_their_table_and_says_why_it_has_no_plots() {
    let store = Store::new();
    let small = ["--pm", "2MiB", "--dram", "8MiB", "--rounds", "1"];
    let timed = ["suite", "--cells", "put-pm", "--db", "."];
    let timed = [&timed[..], &small].concat();
    for arguments in [&timed[..], &["suite", "--counts", "--cells", "put-100"]] {
        let html = page(&store, arguments);
        assert_eq!(html.matches("<p>No plot: ").count(), 2);
        assert!(!html.contains("<svg") && html.contains("<td>--cells</td>"));
    }
}
