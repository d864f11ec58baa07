use super::*;

fn rows(text: &str, format: Format, key: &[&str]) -> Vec<Result<(u64, String, String), u64>> {
    let key: Vec<String> = key.iter().map(ToString::to_string).collect();
    let mut rows = Rows::new(text.as_bytes(), "input", format, &key).unwrap();
    let mut all = Vec::new();
    while let Some(row) = rows.next_row().unwrap() {
        all.push(match row {
            Ok(row) => Ok((
                row.line,
                String::from_utf8(row.key).unwrap(),
                String::from_utf8(row.value).unwrap(),
            )),
            Err(bad) => Err(bad.line),
        });
    }
    all
}

fn row(line: u64, key: &str, value: &str) -> Result<(u64, String, String), u64> {
    Ok((line, key.to_string(), value.to_string()))
}

#[test]
fn csv_with_quotes_and_a_mark_and_bad_lines() {
    let text =
        "\u{feff}id,name\r\n1,\"a, \"\"b\"\"\"\r\n2\r\n\r\n3,\"two\nlines\"\n4,d\n,e\n5,x,y\n";
    assert_eq!(
        rows(text, Format::Csv, &["id"]),
        [
            row(2, "1", r#"{"id":"1","name":"a, \"b\""}"#),
            Err(3),
            row(5, "3", r#"{"id":"3","name":"two\nlines"}"#),
            row(7, "4", r#"{"id":"4","name":"d"}"#),
            Err(8),
            Err(9),
        ]
    );
}

#[test]
fn a_quote_that_is_never_closed_is_told_where_it_begins() {
    let bad = |text: &str, format| {
        let key = ["id".to_string()];
        let mut rows = Rows::new(text.as_bytes(), "input", format, &key).unwrap();
        let mut good = 0;
        while let Some(row) = rows.next_row().unwrap() {
            match row {
                Ok(_) => good += 1,
                Err(bad) => return (good, Some((bad.line, bad.takes_all, bad.what))),
            }
        }
        (good, None)
    };
    let (good, found) = bad("id,name\n1,a\n2,\"b\n3,c\n4,d\n", Format::Csv);
    let (line, takes_all, what) = found.unwrap();
    assert_eq!((good, line, takes_all), (1, 3, true));
    assert!(what.contains("2 more lines"), "{what}");
    // At the end of the file, and in the first line.
    assert_eq!(bad("id,name\n1,\"", Format::Csv).1.unwrap().0, 2);
    assert_eq!(bad("id,name\n\"1,x", Format::Csv).1.unwrap().0, 2);
    // These are closed, or none.
    for text in [
        "id,n\n1,\"a\"\n",
        "id,n\n1,\"a\"",
        "id,n\n1,a\"b\n",
        "id,n\n1,\"a\"\"\"",
    ] {
        assert_eq!(bad(text, Format::Csv), (1, None), "{text:?}");
    }
    assert_eq!(bad("id\tn\n1\t\"b\n2\tc\n", Format::Tsv), (2, None));
}

/// Of a row that is longer than any may be no more is kept than that, and the rows behind it are those that they are.
#[test]
fn rows_that_are_too_long_are_not_kept() {
    // More than the readers ask for at a time.
    let long = "x".repeat(300_000);
    let found = |text: &str, format| {
        let key = ["id".to_string()];
        let limits = (1000, (|| false) as fn() -> bool);
        let rows = Rows::up_to(limits, text.as_bytes(), "input", (format, &key));
        let mut rows = rows.unwrap();
        let mut found = Vec::new();
        while let Some(row) = rows.next_row().unwrap() {
            found.push(match row {
                Ok(row) => (row.line, String::from_utf8(row.key).unwrap()),
                Err(bad) => (bad.line, bad.what),
            });
            let kept = match &rows {
                Rows::Separated(rows) => rows.record.as_slice().len(),
                Rows::Lines(rows) => rows.text.capacity(),
            };
            assert!(kept < 200_000, "{kept}");
        }
        found
    };
    let cut = |line: u64| (line, too_long());
    let there = |line: u64, key: &str| (line, key.to_string());
    let csv = format!("id,n\n1,a\n2,{long}\"\n\n3,\"b\nc\"\n4,d,{long}\r\n5,e\n6,{long}");
    let expected = [there(2, "1"), cut(3), there(5, "3"), cut(7), there(8, "5")];
    let expected = [&expected[..], &[cut(9)]].concat();
    assert_eq!(found(&csv, Format::Csv), expected);
    let tsv = format!("id\tn\n1\t{long}\t\"{long}\n\"2\tb\n");
    let expected = [cut(2), there(3, "\"2")];
    assert_eq!(found(&tsv, Format::Tsv), expected);
    let jsonl = format!("{{\"id\":1}}\n{{\"id\":\"{long}\"}}\n{{\"id\":3}}\n{long}");
    let expected = [there(1, "1"), cut(2), there(3, "3"), cut(4)];
    assert_eq!(found(&jsonl, Format::Jsonl), expected);
    // Within quotes it may be all the rest.
    for more in ["", &format!("{long},")] {
        let csv = format!("id,n\n1,a\n2,{more}\"{long}\"\n3,b\n");
        let all = found(&csv, Format::Csv);
        assert_eq!((all.len(), all[1].0), (2, 3), "{all:?}");
        assert!(all[1].1.contains("within quotes"), "{all:?}");
    }
}

#[test]
fn tsv_does_not_quote_and_keys_join() {
    assert_eq!(
        rows("a\tb\nx\t\"y\n\tz\n", Format::Tsv, &["b", "a"]),
        [
            row(2, "\"y/x", r#"{"a":"x","b":"\"y"}"#),
            row(3, "z/", r#"{"a":"","b":"z"}"#),
        ]
    );
}

#[test]
fn json_lines_stay_as_they_are() {
    let text = "{\"id\":1.50,\"v\":[1]}\n\n{\"id\":\"x\"}\n{\"id\":null}\n[1]\n{\"id\":[]}\n{";
    assert_eq!(
        rows(text, Format::Jsonl, &["id"]),
        [
            row(1, "1.5", "{\"id\":1.50,\"v\":[1]}"),
            row(3, "x", "{\"id\":\"x\"}"),
            Err(4),
            Err(5),
            Err(6),
            Err(7),
        ]
    );
}

#[test]
fn numbers_that_are_not_told_apart_are_no_keys() {
    let text = "{\"id\":18446744073709551615}\n{\"id\":12345678901234567890123}\n\
                {\"id\":-0.001234567890123450}\n{\"id\":1e3}\n{\"id\":\"12345678901234567890123\"}\n\
                {\"id\":0.10000000000000000001}";
    let keys = rows(text, Format::Jsonl, &["id"]).into_iter();
    let keys: Vec<Result<String, u64>> = keys.map(|row| row.map(|row| row.1)).collect();
    let there = |key: &str| Ok(key.to_string());
    assert_eq!(
        keys,
        [
            there("18446744073709551615"),
            Err(2),
            Err(3),
            there("1000.0"),
            there("12345678901234567890123"),
            Err(6)
        ]
    );
}

#[test]
fn only_the_last_column_of_a_key_may_have_what_joins_them() {
    let csv = "a,b\nx,y/z\nx/y,z\n";
    let jsonl = "{\"a\":\"x\",\"b\":\"y/z\"}\n{\"a\":\"x/y\",\"b\":\"z\"}\n";
    for (text, format, bad) in [(csv, Format::Csv, 3), (jsonl, Format::Jsonl, 2)] {
        let keys = rows(text, format, &["a", "b"]).into_iter();
        let keys: Vec<Result<String, u64>> = keys.map(|row| row.map(|row| row.1)).collect();
        assert_eq!(keys, [Ok("x/y/z".to_string()), Err(bad)]);
        let alone = rows(text, format, &["a"]);
        assert!(alone.iter().all(Result::is_ok));
    }
}

#[test]
fn numbers_so_near_to_0_that_they_are_taken_for_others_are_no_keys() {
    let text = "{\"id\":1e-400}\n{\"id\":2e-400}\n{\"id\":-4e-324}\n{\"id\":0.0}\n{\"id\":0e-400}\n\
                {\"id\":0.25}";
    let keys = rows(text, Format::Jsonl, &["id"]).into_iter();
    let keys: Vec<Result<String, u64>> = keys.map(|row| row.map(|row| row.1)).collect();
    let there = |key: &str| Ok(key.to_string());
    let expected = [
        Err(1),
        Err(2),
        Err(3),
        there("0.0"),
        there("0.0"),
        there("0.25"),
    ];
    assert_eq!(keys, expected);
}

#[test]
fn columns_must_be_there_and_once() {
    let open = |text: &'static str, key: &str| match Rows::new(
        text.as_bytes(),
        "f.csv",
        Format::Csv,
        &[key.to_string()],
    ) {
        Err(Failure::Failed(text)) => text,
        _ => String::new(),
    };
    assert!(open("a,b\n", "c").contains("a, b"));
    assert!(open("a,a\n", "a").contains("twice"));
    assert!(open("", "a").contains("empty"));
}

/// A file may have anything in its first line, and errors are read on a terminal.
#[test]
fn names_of_columns_are_escaped_in_errors() {
    let refused = |text: &[u8], format, key: &[&str]| {
        let key: Vec<String> = key.iter().map(ToString::to_string).collect();
        let why = match Rows::new(text, "input", format, &key) {
            Err(Failure::Failed(why)) => why,
            Err(other) => panic!("{other:?}"),
            Ok(mut rows) => rows.next_row().unwrap().unwrap().unwrap_err().what,
        };
        assert!(!why.contains('\u{1b}'), "{why:?}");
        why.matches("\\x1b[2J").count()
    };
    let csv = Format::Csv;
    assert_eq!(refused(b"a\x1b[2J,b,a\x1b[2J\n", csv, &["b"]), 1);
    assert_eq!(refused(b"a\x1b[2J,b\n", csv, &["c\x1b[2J"]), 2);
    let odd = "a\x1b[2J";
    assert_eq!(refused(b"a\x1b[2J\n\xff\n", csv, &[odd]), 1);
    assert_eq!(refused(b"a\x1b[2J,b\n1/2,3\n", csv, &[odd, "b"]), 1);
    let json = [
        "{}",
        "{\"a\\u001b[2J\":[]}",
        "{\"a\\u001b[2J\":1234567890123456.5}",
        "{\"a\\u001b[2J\":1e-320}",
    ];
    for line in json {
        assert_eq!(refused(line.as_bytes(), Format::Jsonl, &[odd]), 1, "{line}");
    }
}

/// Nobody is asked behind a row that never comes: where lines are blank, or one line has no end.
#[test]
fn what_is_no_row_and_has_no_end_is_interrupted() {
    let key = ["id".to_string()];
    for (text, format, more) in [
        ("{\"id\":1}\n", Format::Jsonl, b'\n'),
        ("{\"id\":1}\n", Format::Jsonl, b'x'),
        ("id\n1\n", Format::Csv, b'\n'),
        ("id\n1\n", Format::Tsv, b'\r'),
        ("id\n1\n", Format::Csv, b'x'),
    ] {
        let input = text.as_bytes().chain(std::io::repeat(more).take(1 << 20));
        let limits = (1000, (|| true) as fn() -> bool);
        let mut rows = Rows::up_to(limits, input, "input", (format, &key)).unwrap();
        assert!(rows.next_row().unwrap().unwrap().is_ok());
        match rows.next_row().unwrap_err() {
            Failure::Failed(text) => assert_eq!(text, "interrupted"),
            other => panic!("{other:?}"),
        }
    }
    // Nor is there a first line.
    let input = std::io::repeat(b'\n').take(1 << 20);
    let limits = (1000, (|| true) as fn() -> bool);
    match Rows::up_to(limits, input, "input", (Format::Csv, &key)) {
        Err(Failure::Failed(text)) => assert!(text.contains("interrupted"), "{text}"),
        _ => panic!("there was none"),
    }
}
