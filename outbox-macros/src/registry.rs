//! `outbox! { .. }`: reads the entries, refuses what is wrong with them, and emits the registry.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{Error, Expr, Ident, Lit, LitStr, Result, Token, Type, bracketed};

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
    pool: Option<Expr>,
    driver: Option<Type>,
}

/// `"name" => Record`
struct Tracked {
    name: LitStr,
    record: Type,
}

impl Entries {
    /// Reads to the end, and reports the mistakes of all entries together.
    fn read(input: ParseStream<'_>) -> Result<(Self, Option<Error>)> {
        let mut entries = Self::default();
        let mut refused: Option<Error> = None;
        while !input.is_empty() {
            let entry = entries.entry(input).and_then(|()| end_of_entry(input));
            if let Err(error) = entry {
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
            self.name(input)
        } else if input.peek(Ident::peek_any) && input.peek2(Token![:]) && !input.peek2(Token![::])
        {
            self.setting(input)
        } else {
            Err(no_name(input.span()))
        }
    }

    fn name(&mut self, input: ParseStream<'_>) -> Result<()> {
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
        if let Some(first) = self.tracked.iter().find(|first| first.name.value() == text) {
            let first = &first.record;
            let message = format!(
                "the name `{text}` is registered already, with the record `{}`: keep one of the \
                 two entries",
                quote!(#first)
            );
            return Err(Error::new(name.span(), message));
        }
        self.tracked.push(Tracked { name, record });
        Ok(())
    }

    fn setting(&mut self, input: ParseStream<'_>) -> Result<()> {
        let key = Ident::parse_any(input)?;
        input.parse::<Token![:]>()?;
        let given = if key == "pool" {
            self.pool.replace(input.parse()?).is_some()
        } else if key == "driver" {
            self.driver.replace(input.parse()?).is_some()
        } else {
            let message = format!("unknown key `{key}`: expected `pool` or `driver`");
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

    fn emit(&self, root: &TokenStream, driver: &TokenStream) -> TokenStream {
        let deferred = || quote!(deferred());
        let start = self
            .pool
            .as_ref()
            .map_or_else(deferred, |pool| quote!(new(#pool)));
        let mut names = TokenStream::new();
        let mut tracks = TokenStream::new();
        for (index, Tracked { name, record }) in self.tracked.iter().enumerate() {
            let ty = format_ident!("__OutboxName{index}", span = name.span());
            names.extend(quote_spanned! {name.span()=>
                struct #ty;
                impl #root::TrackedName for #ty {
                    const NAME: &'static str = #name;
                }
            });
            // A record that cannot be tracked is reported where the user wrote it.
            tracks.extend(quote_spanned!(record.span()=> .track::<#record, #ty>()));
        }
        quote!({ #names #root::Outbox::<#driver>::#start #tracks })
    }

    /// An expression without a type, so that no later line complains about a wrong one. The types
    /// that were read are mentioned: nobody is to remove their imports.
    fn refuse(&self, driver: &TokenStream, refused: &Error) -> TokenStream {
        let records = self.tracked.iter().map(|tracked| &tracked.record);
        let errors = refused.to_compile_error();
        quote!({
            let _ = |_: (&#driver, #(&#records),*)| ();
            #errors
        })
    }
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
        "expected a name and its record type, `\"payments\" => PaymentOutbox`, or `pool: ..` or \
         `driver: ..`; a name that is not a string literal is registered with \
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
        })
        .unwrap();
        assert!(refused.is_none());
        let names: Vec<_> = entries.tracked.iter().map(|t| t.name.value()).collect();
        assert_eq!(names, ["refunds", "payments"]);
        assert!(entries.pool.is_some() && entries.driver.is_some());
    }

    #[test]
    fn every_wrong_entry_is_reported() {
        let entries = quote!("" => A, pol: 1, "payments" => A, 7 => A, "payments" => B);
        let (_, refused) = read(entries).unwrap();
        assert_eq!(refused.unwrap().into_iter().count(), 4);
    }
}
