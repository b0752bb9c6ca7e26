//! `#[derive(Layout)]`: size, alignment and field offsets as compile-time assertions, and as a
//! table for documents to be checked against.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, Fields, LitInt, Result};

/// The values of one `#[layout(...)]` attribute.
#[derive(Default)]
struct Expectation {
    size: Option<LitInt>,
    align: Option<LitInt>,
    offset: Option<LitInt>,
}

impl Expectation {
    fn parse(attributes: &[Attribute]) -> Result<Expectation> {
        let mut found = Expectation::default();
        for attribute in attributes.iter().filter(|a| a.path().is_ident("layout")) {
            attribute.parse_nested_meta(|meta| {
                let slot = if meta.path.is_ident("size") {
                    &mut found.size
                } else if meta.path.is_ident("align") {
                    &mut found.align
                } else if meta.path.is_ident("offset") {
                    &mut found.offset
                } else {
                    return Err(meta.error("expected `size`, `align` or `offset`"));
                };
                *slot = Some(meta.value()?.parse()?);
                Ok(())
            })?;
        }
        Ok(found)
    }
}

/// Generates the assertions for `input`, or says what is missing.
pub fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(
            input.span(),
            "Layout can be derived for structures only",
        ));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new(input.span(), "Layout needs named fields"));
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new(
            input.generics.span(),
            "Layout needs a concrete type",
        ));
    }
    let whole = Expectation::parse(&input.attrs)?;
    let (Some(size), Some(align)) = (whole.size, whole.align) else {
        return Err(Error::new(
            input.ident.span(),
            "Layout needs `#[layout(size = N, align = N)]` on the type",
        ));
    };
    let name = &input.ident;
    let mut checks = quote! {
        assert!(::core::mem::size_of::<#name>() == #size, "size differs from #[layout(size)]");
        assert!(
            ::core::mem::align_of::<#name>() == #align,
            "alignment differs from #[layout(align)]"
        );
    };
    let mut rows = TokenStream::new();
    for field in &fields.named {
        let Some(offset) = Expectation::parse(&field.attrs)?.offset else {
            return Err(Error::new(
                field.span(),
                "every field needs `#[layout(offset = N)]`",
            ));
        };
        let ident = &field.ident;
        checks.extend(quote! {
            assert!(
                ::core::mem::offset_of!(#name, #ident) == #offset,
                "field offset differs from #[layout(offset)]"
            );
        });
        let text = ident.as_ref().map(ToString::to_string);
        let field_type = &field.ty;
        rows.extend(quote! {
            ::scif_abi::codec::Field {
                name: #text,
                offset: #offset,
                bytes: ::core::mem::size_of::<#field_type>(),
            },
        });
    }
    let text = name.to_string();
    Ok(quote! {
        const _: () = { #checks };

        impl ::scif_abi::codec::Layout for #name {
            const NAME: &'static str = #text;
            const FIELDS: &'static [::scif_abi::codec::Field] = &[#rows];
        }
    })
}

#[cfg(test)]
mod tests {
    use super::expand;
    use syn::parse_quote;

    #[test]
    fn generates_one_assertion_per_fact() {
        let tokens = expand(&parse_quote! {
            #[layout(size = 8, align = 4)]
            struct Record {
                #[layout(offset = 0)]
                kind: u32,
                #[layout(offset = 4)]
                length: u32,
            }
        });
        let text = tokens.map(|t| t.to_string()).unwrap_or_default();
        assert_eq!(text.matches("assert !").count(), 4, "{text}");
        assert_eq!(text.matches("codec :: Field {").count(), 2, "{text}");
    }

    #[test]
    fn refuses_incomplete_descriptions() {
        let missing_size = parse_quote! { struct A { #[layout(offset = 0)] a: u32 } };
        let missing_offset = parse_quote! { #[layout(size = 4, align = 4)] struct A { a: u32 } };
        let not_a_struct = parse_quote! { #[layout(size = 4, align = 4)] enum A { B } };
        let unknown_key = parse_quote! { #[layout(sise = 4, align = 4)] struct A { a: u32 } };
        for input in [missing_size, missing_offset, not_a_struct, unknown_key] {
            assert!(expand(&input).is_err());
        }
    }
}
