//! Rules about pages: promised numbers have tests, links have targets.

use gristmill_tidy::{read, root, text_files};

/// Mark of a row without a test.
const UNMEASURED: &str = "[not yet measured]";

/// Returns the rows of the tables in `SPECIFICATION.md`, as cells.
fn promises() -> Vec<Vec<String>> {
    let page = read("SPECIFICATION.md");
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| what"));
    let cells =
        |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    rows.map(cells).collect()
}

#[test]
fn every_promise_has_a_test_or_says_that_it_has_none() {
    let (tests, rows) = (text_files(&["py", "rs"]), promises());
    assert!(rows.len() > 10, "SPECIFICATION.md has lost its tables");
    for row in rows {
        let id = row.last().expect("a row has cells").trim_matches('`');
        if id == UNMEASURED {
            continue;
        }
        if let Some(key) = id.strip_prefix("bench:") {
            let needle = format!("key = \"{key}\"");
            let is_there = tests
                .iter()
                .any(|file| file.path.starts_with("benches/rows/") && file.text.contains(&needle));
            assert!(is_there, "no row of benches/ has the key {key}");
            continue;
        }
        let (path, name) = id.split_once("::").unwrap_or_else(|| panic!("{id} is no test id"));
        let file = tests.iter().find(|file| file.path == path);
        let text = &file.unwrap_or_else(|| panic!("{path} does not exist")).text;
        let found = text
            .split_once(&format!("fn {name}("))
            .or_else(|| text.split_once(&format!("def {name}(")));
        let (before, body) = found.unwrap_or_else(|| panic!("{path} has no {name}"));
        let indent = before.rsplit('\n').next().expect("a line");
        let ends = [format!("\n{indent}}}\n"), "\ndef ".into()];
        let ends = ends.iter().filter_map(|end| body.find(end));
        let body = &body[..ends.min().unwrap_or(body.len())];
        assert!(body.contains("assert"), "{id} asserts nothing");
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    for page in text_files(&["md"]) {
        let folder = root().join(&page.path);
        let folder = folder.parent().expect("a file is in a folder");
        for part in page.text.split("](").skip(1) {
            let target = part.split([')', '#']).next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            assert!(folder.join(target).exists(), "{} links to {target}", page.path);
        }
    }
}

/// Returns the strings of a module's list `__all__`.
fn public_names(module: &str) -> Vec<String> {
    let module = read(module);
    let (_, list) = module.split_once("__all__ = [").expect("the module lists its names");
    let (list, _) = list.split_once(']').expect("a list ends");
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns whether the reference has an entry for a public name, under a heading made from its docstring.
fn is_in_reference(pages: &str, name: &str) -> bool {
    ["::: ", "heading: "].iter().any(|prefix| pages.contains(&format!("{prefix}{name}\n")))
}

#[test]
fn the_reference_has_an_entry_for_every_public_name() {
    let files = text_files(&["md"]);
    let pages = files.iter().filter(|file| file.path.starts_with("docs/reference/"));
    let pages: String = pages.map(|file| file.text.as_str()).collect();
    let modules = [
        ("gristmill", "python/gristmill/__init__.py"),
        ("gristmill.on", "python/gristmill/on.py"),
        ("gristmill.parsl", "python/gristmill/parsl/__init__.py"),
    ];
    for (module, path) in modules {
        for name in public_names(path).iter().filter(|name| *name != "__version__") {
            let name = format!("{module}.{name}");
            assert!(is_in_reference(&pages, &name), "docs/reference has no entry for {name}");
        }
    }
}

#[test]
fn every_page_of_the_documentation_is_in_its_menu() {
    let menu = read("mkdocs.yml");
    for page in text_files(&["md"]) {
        if let Some(name) = page.path.strip_prefix("docs/") {
            assert!(menu.contains(&format!(": {name}\n")), "mkdocs.yml has no entry for {name}");
        }
    }
}
