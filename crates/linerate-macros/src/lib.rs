//! An attribute for structs of records.
#![forbid(unsafe_code)]

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Leaves each `Option` field of the struct out of its JSON while it is `None`. One that is written as
/// null instead has `#[serialize_always]`. Stands above the derives.
///
/// As `serde_with`'s attribute of this name, without the parsers of syntax that it would have built
/// first: a field here is written as `name: Option<...>`, and is recognised by these tokens.
#[proc_macro_attribute]
pub fn skip_serializing_none(_: TokenStream, item: TokenStream) -> TokenStream {
    let tokens = item.into_iter().map(|token| match token {
        TokenTree::Group(body) if body.delimiter() == Delimiter::Brace => {
            let mut fields = Group::new(Delimiter::Brace, fields(body.stream()));
            fields.set_span(body.span());
            TokenTree::Group(fields)
        }
        token => token,
    });
    tokens.collect()
}

fn fields(body: TokenStream) -> TokenStream {
    let (mut all, mut field, mut depth) = (TokenStream::new(), Vec::new(), 0);
    for token in body {
        depth += i32::from(is(&token, '<')) - i32::from(is(&token, '>'));
        let ends = depth == 0 && is(&token, ',');
        field.push(token);
        if ends {
            all.extend(attributed(std::mem::take(&mut field)));
        }
    }
    all.extend(attributed(field));
    all
}

/// A field with the attribute of serde that it needs.
fn attributed(mut field: Vec<TokenTree>) -> TokenStream {
    let always = field.iter().position(|token| token.to_string() == "[serialize_always]");
    if let Some(at) = always {
        // With the `#` before it.
        field.drain(at - 1..=at);
    }
    let colon = field.iter().position(|token| is(token, ':'));
    let kind = colon.and_then(|colon| field.get(colon + 1));
    let optional = kind.is_some_and(|kind| kind.to_string() == "Option");
    let skip = if optional && always.is_none() {
        r#"#[serde(skip_serializing_if = "Option::is_none")]"#
    } else {
        ""
    };
    skip.parse::<TokenStream>().unwrap_or_default().into_iter().chain(field).collect()
}

fn is(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}
