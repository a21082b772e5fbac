//! Shapes among the tokens of Rust.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, Group, Span, TokenTree};

use super::source::{Function, Shape};

pub fn is(token: &TokenTree, punct: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == punct)
}

pub fn word(token: Option<&TokenTree>) -> String {
    match token {
        Some(TokenTree::Ident(name)) => name.to_string(),
        _ => String::new(),
    }
}

pub fn lines(from: Span, to: Span) -> usize {
    to.end().line - from.start().line + 1
}

/// An attribute, and of how many tokens it is.
pub fn attribute(tokens: &[TokenTree]) -> Option<(Group, usize)> {
    let bang = tokens.get(1).is_some_and(|token| is(token, '!'));
    let at = if bang { 2 } else { 1 };
    match (tokens.first(), tokens.get(at)) {
        (Some(hash), Some(TokenTree::Group(group)))
            if is(hash, '#') && group.delimiter() == Delimiter::Bracket =>
        {
            Some((group.clone(), at + 1))
        }
        _ => None,
    }
}

/// How many tokens an item has: to its semicolon or its braces.
pub fn item_len(tokens: &[TokenTree]) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        other => is(other, ';'),
    };
    tokens.iter().position(ends).map_or(tokens.len(), |at| at + 1)
}

pub fn ends_visibility(tokens: &[TokenTree]) -> bool {
    match tokens {
        [.., before, TokenTree::Group(group)] if group.delimiter() == Delimiter::Parenthesis => {
            word(Some(before)) == "pub"
        }
        [.., last] => word(Some(last)) == "pub",
        [] => false,
    }
}

/// A function with a body: from `fn` to its last brace.
pub fn function(tokens: &[TokenTree]) -> Option<Function> {
    let name = word(tokens.get(1));
    let end = &tokens[item_len(tokens) - 1];
    let body = matches!(end, TokenTree::Group(_)) && !name.is_empty();
    body.then(|| Function { name, lines: lines(tokens[0].span(), end.span()) })
}

/// `a::b::c` at the start of the tokens, and how many these are.
pub fn path_of(tokens: &[TokenTree]) -> (Vec<String>, usize) {
    let (mut path, mut at) = (vec![word(tokens.first())], 1);
    while let [first, second, TokenTree::Ident(name), ..] = &tokens[at..] {
        if !is(first, ':') || !is(second, ':') {
            break;
        }
        path.push(name.to_string());
        at += 3;
    }
    (path, at)
}

pub type Leaf = (Vec<String>, Option<String>);

/// The paths of a `use`, with the names they get; none for `*`.
pub fn use_tree(tokens: &[TokenTree], before: &[String], leaves: &mut Vec<Leaf>) {
    for part in tokens.split(|token| is(token, ',')) {
        let mut path = before.to_vec();
        let mut name = None;
        for (at, token) in part.iter().enumerate() {
            match token {
                TokenTree::Group(group) => {
                    let inner: Vec<_> = group.stream().into_iter().collect();
                    use_tree(&inner, &path, leaves);
                    path.clear();
                }
                TokenTree::Ident(ident) if ident == "as" => {
                    name = Some(word(part.get(at + 1)));
                    break;
                }
                TokenTree::Ident(ident) if ident == "self" && !path.is_empty() => {}
                TokenTree::Ident(ident) => path.push(ident.to_string()),
                _ => {}
            }
        }
        let glob = part.last().is_some_and(|token| is(token, '*'));
        if let Some(last) = path.last().cloned() {
            leaves.push((path, if glob { None } else { name.or(Some(last)) }));
        }
    }
}

/// A field's long option, from `#[arg(...)]` and what follows it.
pub fn option(attribute: &Group, after: &[TokenTree]) -> Option<(String, String)> {
    let TokenTree::Group(arguments) = attribute.stream().into_iter().nth(1)? else { return None };
    let arguments: Vec<_> = arguments.stream().into_iter().collect();
    let long = arguments.iter().position(|token| word(Some(token)) == "long")?;
    let colon = after.iter().position(|token| is(token, ':'))?;
    let field = word(after.get(colon.checked_sub(1)?));
    let given = match arguments.get(long + 2) {
        Some(TokenTree::Literal(name)) if is(&arguments[long + 1], '=') => {
            name.to_string().trim_matches('"').to_owned()
        }
        _ => field.replace('_', "-"),
    };
    Some((field, given))
}

/// Names of the fields or parameters between these brackets, declared or given: `name: ...`, or a name
/// alone between the commas of braces.
pub fn fields(group: &Group) -> Vec<String> {
    if !matches!(group.delimiter(), Delimiter::Brace | Delimiter::Parenthesis) {
        return vec![];
    }
    let tokens: Vec<_> = group.stream().into_iter().collect();
    let found = tokens.iter().enumerate().filter(|(at, _)| {
        let before = at.checked_sub(1).map(|at| &tokens[at]);
        let begins = before.is_none_or(|token| is(token, ','));
        let declared = matches!(before, Some(TokenTree::Group(_))) || word(before) == "pub";
        let after = |skipped| tokens.get(at + skipped);
        let colon = after(1).is_some_and(|token| is(token, ':'));
        let path = colon && after(2).is_some_and(|token| is(token, ':'));
        let alone = after(1).is_none_or(|token| is(token, ','));
        begins && (alone && group.delimiter() == Delimiter::Brace || colon && !path)
            || declared && colon && !path
    });
    found.map(|(_, token)| word(Some(token))).filter(|name| !name.is_empty()).collect()
}

/// A struct or an enum with braces.
pub fn shape(tokens: &[TokenTree]) -> Option<Shape> {
    if !["struct", "enum"].contains(&&*word(tokens.first())) {
        return None;
    }
    let name = Some(word(tokens.get(1))).filter(|name| names_a_type(name))?;
    let mut found = Shape { name, fields: BTreeSet::new(), holds: BTreeSet::new() };
    let mut todo = vec![tokens[2..item_len(tokens)].to_vec()];
    while let Some(tokens) = todo.pop() {
        for (at, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) => {
                    found.fields.extend(fields(group));
                    todo.push(group.stream().into_iter().collect());
                }
                TokenTree::Ident(_) => drop(found.holds.insert(path_of(&tokens[at..]).0)),
                _ => {}
            }
        }
    }
    Some(found)
}

/// Whether a name begins as those of types do.
pub fn names_a_type(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
}

/// The names in `error_kinds! { Usage = "usage", ... }`, as JSON has them.
pub fn error_kinds(tokens: &[TokenTree]) -> Vec<String> {
    let [name, bang, TokenTree::Group(body), ..] = tokens else { return vec![] };
    if word(Some(name)) != "error_kinds" || !is(bang, '!') {
        return vec![];
    }
    let body: Vec<_> = body.stream().into_iter().collect();
    let names = body.windows(2).filter_map(|pair| match pair {
        [equals, TokenTree::Literal(name)] if is(equals, '=') => Some(name.to_string()),
        _ => None,
    });
    names.map(|name| name.trim_matches('"').to_owned()).collect()
}
