//! `outbox! { .. }`: reads the entries, refuses what is wrong with them, and emits the registry.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::token::{Brace, Bracket};
use syn::{
    Error, Expr, Ident, Lit, LitInt, LitStr, Result, Token, Type, TypePath, braced, bracketed,
};

/// The whole macro: the two brackets of the backend, then the user's entries.
pub(crate) fn expand(input: TokenStream) -> TokenStream {
    let read = |input: ParseStream<'_>| {
        let root = bracket(input)?;
        let default_driver = bracket(input)?;
        let (entries, refused) = Entries::read(input)?;
        let driver = entries.driver.as_ref();
        let driver = driver.map_or(default_driver, |driver| quote!(#driver));
        Ok(match refused {
            None => entries.emit(&root, &driver),
            Some(refused) => entries.refuse(&driver, &refused),
        })
    };
    read.parse2(input).unwrap_or_else(Error::into_compile_error)
}

/// What the backend passes stays tokens: `$crate` is a path to the compiler alone.
fn bracket(input: ParseStream<'_>) -> Result<TokenStream> {
    let content;
    bracketed!(content in input);
    content.parse()
}

/// What the user wrote.
#[derive(Default)]
struct Entries {
    tracked: Vec<Tracked>,
    deliveries: Option<Vec<Named>>,
    pool: Option<Expr>,
    driver: Option<Type>,
}

/// `"name" => Record`, with the consumers of the name behind it.
struct Tracked {
    named: Named,
    consumers: Option<Vec<Consumer>>,
}

/// `"name" => Record`
struct Named {
    name: LitStr,
    record: Type,
}

/// `0 => handler`
struct Consumer {
    bit: LitInt,
    handler: TypePath,
}

/// The highest bit of a consumer.
const HIGHEST: u32 = 30;

impl Entries {
    /// Reads to the end, and reports the mistakes of all entries together.
    fn read(input: ParseStream<'_>) -> Result<(Self, Option<Error>)> {
        let mut entries = Self::default();
        let mut refused = each(input, |input| entries.entry(input))?;
        if refused.is_none() && entries.tracked.is_empty() {
            refused = Some(Error::new(
                Span::call_site(),
                "a registry tracks at least one name: `outbox! { \"payments\" => PaymentOutbox }`",
            ));
        }
        Ok((entries, refused))
    }

    fn entry(&mut self, input: ParseStream<'_>) -> Result<()> {
        if input.peek(Lit) {
            let named = self.named(input)?;
            self.tracked.push(Tracked {
                named,
                consumers: None,
            });
            Ok(())
        } else if input.peek(Ident::peek_any) && input.peek2(Token![:]) && !input.peek2(Token![::])
        {
            self.setting(input)
        } else {
            Err(no_name(input.span()))
        }
    }

    /// A name that is not taken yet, and its record.
    fn named(&self, input: ParseStream<'_>) -> Result<Named> {
        let name = match input.parse()? {
            Lit::Str(name) => name,
            other => return Err(no_name(other.span())),
        };
        let text = name.value();
        let arrow: Option<Token![=>]> = input.parse()?;
        let at_end = input.is_empty() || input.peek(Token![,]);
        if arrow.is_none() || at_end {
            let span = if at_end { name.span() } else { input.span() };
            let message =
                format!("write the record type after `=>`: `\"{text}\" => PaymentOutbox`");
            return Err(Error::new(span, message));
        }
        let record: Type = input.parse()?;
        if text.is_empty() {
            return Err(Error::new(
                name.span(),
                "a name cannot be empty: write the name that messages are published under",
            ));
        }
        let tracked = self.tracked.iter().map(|tracked| &tracked.named);
        let mut taken = tracked.chain(self.deliveries.iter().flatten());
        if let Some(first) = taken.find(|first| first.name.value() == text) {
            return Err(registered_already(&name, first));
        }
        Ok(Named { name, record })
    }

    fn setting(&mut self, input: ParseStream<'_>) -> Result<()> {
        let key = Ident::parse_any(input)?;
        input.parse::<Token![:]>()?;
        let given = if key == "pool" {
            self.pool.replace(input.parse()?).is_some()
        } else if key == "driver" {
            self.driver.replace(input.parse()?).is_some()
        } else if key == "consumers" {
            let consumers = consumers(&key, input)?;
            let Some(tracked) = self.tracked.last_mut() else {
                let message = "`consumers` stands behind the name that they consume: `\"payments\" \
                               => PaymentOutbox, consumers: { 0 => ship, 1 => mail }`";
                return Err(Error::new(key.span(), message));
            };
            tracked.consumers.replace(consumers).is_some()
        } else if key == "deliveries" {
            let deliveries = self.deliveries(input)?;
            self.deliveries.replace(deliveries).is_some()
        } else {
            let message = format!(
                "unknown key `{key}`: expected `consumers`, `deliveries`, `pool` or `driver`"
            );
            return Err(Error::new(key.span(), message));
        };
        if given {
            return Err(Error::new(
                key.span(),
                format!("`{key}` is given twice: keep one"),
            ));
        }
        Ok(())
    }

    /// `["payments.*" => PaymentOutbox, ..]`
    fn deliveries(&self, input: ParseStream<'_>) -> Result<Vec<Named>> {
        if !input.peek(Bracket) {
            let message = "write a list: `deliveries: [\"payments.*\" => PaymentOutbox]`";
            return Err(input.error(message));
        }
        let content;
        bracketed!(content in input);
        let mut deliveries: Vec<Named> = Vec::new();
        if content.is_empty() {
            return Err(content.error("name at least one subscription, or leave the list out"));
        }
        let refused = each(&content, |content| {
            let named = self.named(content)?;
            let mut before = deliveries.iter();
            if let Some(first) = before.find(|first| first.name.value() == named.name.value()) {
                return Err(registered_already(&named.name, first));
            }
            deliveries.push(named);
            Ok(())
        })?;
        refused.map_or(Ok(deliveries), Err)
    }

    fn emit(&self, root: &TokenStream, driver: &TokenStream) -> TokenStream {
        let deferred = || quote!(deferred());
        let start = self
            .pool
            .as_ref()
            .map_or_else(deferred, |pool| quote!(new(#pool)));
        let mut names = TokenStream::new();
        let mut tracks = TokenStream::new();
        for (index, tracked) in self.tracked.iter().enumerate() {
            let Named { name, record } = &tracked.named;
            let ty = format_ident!("__OutboxName{index}", span = name.span());
            names.extend(quote_spanned! {name.span()=>
                struct #ty;
                impl #root::TrackedName for #ty {
                    const NAME: &'static str = #name;
                }
            });
            // A record that cannot be tracked is reported where the user wrote it.
            tracks.extend(quote_spanned!(record.span()=> .track::<#record, #ty>()));
            for Consumer { bit, handler } in tracked.consumers.iter().flatten() {
                tracks.extend(quote_spanned!(handler.span()=> .consumer::<#handler>(#bit)));
            }
        }
        for Named { name, record } in self.deliveries.iter().flatten() {
            tracks.extend(quote_spanned!(record.span()=> .deliver::<#record>(#name)));
        }
        quote!({ #names #root::Outbox::<#driver>::#start #tracks })
    }

    /// An expression without a type, so that no later line complains about a wrong one. The types
    /// that were read are mentioned: nobody is to remove their imports.
    fn refuse(&self, driver: &TokenStream, refused: &Error) -> TokenStream {
        let delivered = self.deliveries.iter().flatten();
        let tracked = self.tracked.iter().map(|tracked| &tracked.named);
        let records = tracked.chain(delivered).map(|named| &named.record);
        let consumers = self.tracked.iter().flat_map(|tracked| &tracked.consumers);
        let handlers = consumers.flatten().map(|consumer| &consumer.handler);
        let errors = refused.to_compile_error();
        quote!({
            let _ = |_: (&#driver, #(&#records,)* #(&#handlers,)*)| ();
            #errors
        })
    }
}

/// Reads entries with commas between them to the end, and reports the mistakes of all together.
fn each(
    input: ParseStream<'_>,
    mut entry: impl FnMut(ParseStream<'_>) -> Result<()>,
) -> Result<Option<Error>> {
    let mut refused: Option<Error> = None;
    while !input.is_empty() {
        if let Err(error) = entry(input).and_then(|()| end_of_entry(input)) {
            while !input.is_empty() && !input.peek(Token![,]) {
                input.parse::<TokenTree>()?;
            }
            match &mut refused {
                Some(first) => first.combine(error),
                None => refused = Some(error),
            }
        }
        input.parse::<Option<Token![,]>>()?;
    }
    Ok(refused)
}

/// `{ 0 => ship, 1 => mail }`
fn consumers(key: &Ident, input: ParseStream<'_>) -> Result<Vec<Consumer>> {
    const FORM: &str = "write each consumer with a bit of its own: `consumers: { 0 => ship, 1 => \
                        mail }`";
    if !input.peek(Brace) {
        return Err(input.error(FORM));
    }
    let content;
    braced!(content in input);
    let mut consumers: Vec<Consumer> = Vec::new();
    let refused = each(&content, |content| {
        if !content.peek(LitInt) {
            return Err(content.error(FORM));
        }
        let bit: LitInt = content.parse()?;
        if !content.peek(Token![=>]) {
            return Err(Error::new(bit.span(), FORM));
        }
        content.parse::<Token![=>]>()?;
        let handler: TypePath = content.parse()?;
        let number = bit.base10_parse::<u32>().ok();
        let number = number.filter(|number| *number <= HIGHEST).ok_or_else(|| {
            let message = format!("a consumer's bit is a number from 0 to {HIGHEST}");
            Error::new(bit.span(), message)
        })?;
        let text = |handler: &TypePath| quote!(#handler).to_string();
        for first in &consumers {
            if first.bit.base10_parse::<u32>().ok() == Some(number) {
                let message = format!(
                    "the bit {number} belongs to `{}` already: give `{}` one that no consumer of \
                     the name ever had",
                    text(&first.handler),
                    text(&handler)
                );
                return Err(Error::new(bit.span(), message));
            }
            if text(&first.handler) == text(&handler) {
                let message = format!("`{}` is a consumer already: keep one", text(&handler));
                return Err(Error::new_spanned(&handler, message));
            }
        }
        consumers.push(Consumer { bit, handler });
        Ok(())
    })?;
    match refused {
        Some(refused) => Err(refused),
        None if consumers.is_empty() => Err(Error::new(key.span(), FORM)),
        None => Ok(consumers),
    }
}

fn registered_already(name: &LitStr, first: &Named) -> Error {
    let record = &first.record;
    let message = format!(
        "the name `{}` is registered already, with the record `{}`: keep one of the two entries",
        name.value(),
        quote!(#record)
    );
    Error::new(name.span(), message)
}

fn end_of_entry(input: ParseStream<'_>) -> Result<()> {
    if input.is_empty() || input.peek(Token![,]) {
        return Ok(());
    }
    Err(input.error("expected `,` between two entries"))
}

fn no_name(span: Span) -> Error {
    Error::new(
        span,
        "expected a name and its record type, `\"payments\" => PaymentOutbox`, or `consumers: ..`, \
         `deliveries: ..`, `pool: ..` or `driver: ..`; a name that is not a string literal is registered with \
         `.register::<PaymentOutbox>(name)`",
    )
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::{Entries, Error, Result};
    use proc_macro2::TokenStream;
    use syn::parse::Parser;

    fn read(entries: TokenStream) -> Result<(Entries, Option<Error>)> {
        Entries::read.parse2(entries)
    }

    #[test]
    fn names_keep_their_order_and_settings_stand_anywhere() {
        let (entries, refused) = read(quote! {
            driver: Rusqlite,
            "refunds" => crate::records::Refund<u8, u16>,
            pool: build(1, 2),
            "payments" => PaymentOutbox,
            consumers: { 0 => ship, 2 => crate::mail },
            deliveries: ["payments.*" => PaymentOutbox],
        })
        .unwrap();
        assert!(refused.is_none());
        let names: Vec<_> = entries
            .tracked
            .iter()
            .map(|t| t.named.name.value())
            .collect();
        assert_eq!(names, ["refunds", "payments"]);
        assert!(entries.pool.is_some() && entries.driver.is_some());
        assert!(entries.tracked[0].consumers.is_none());
        assert_eq!(entries.tracked[1].consumers.as_ref().unwrap().len(), 2);
        assert_eq!(entries.deliveries.unwrap().len(), 1);
    }

    #[test]
    fn every_wrong_entry_is_reported() {
        let entries = quote!("" => A, pol: 1, "payments" => A, 7 => A, "payments" => B);
        let (_, refused) = read(entries).unwrap();
        assert_eq!(refused.unwrap().into_iter().count(), 4);
        let entries = quote! {
            "payments" => A,
            consumers: { 0 => ship, 0 => mail, 31 => pack, x => log, 1 => ship },
            deliveries: ["payments" => A, "p.*" => A, "p.*" => A],
        };
        let (_, refused) = read(entries).unwrap();
        assert_eq!(refused.unwrap().into_iter().count(), 6);
    }
}
