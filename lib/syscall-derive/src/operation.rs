//! `#[derive(Operation)]`: numbers, encoder and decoder of a set of operations.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, Fields, LitInt, Result, Token, Type, Variant};

/// The arguments of `#[operation(number = T, words = N)]`.
struct Header {
    number: Type,
    words: usize,
}

impl Header {
    fn parse(input: &DeriveInput) -> Result<Header> {
        let (mut number, mut words) = (None, None);
        for attribute in input
            .attrs
            .iter()
            .filter(|a| a.path().is_ident("operation"))
        {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("number") {
                    number = Some(meta.value()?.parse::<Type>()?);
                } else if meta.path.is_ident("words") {
                    words = Some(meta.value()?.parse::<LitInt>()?.base10_parse()?);
                } else {
                    return Err(meta.error("expected `number` or `words`"));
                }
                Ok(())
            })?;
        }
        match (number, words) {
            (Some(number), Some(words)) => Ok(Header { number, words }),
            _ => Err(Error::new(
                input.ident.span(),
                "Operation needs `#[operation(number = T, words = N)]` on the enum",
            )),
        }
    }
}

/// One variant, understood.
struct Operation {
    variant: Ident,
    constant: Ident,
    number: LitInt,
    /// Further numbers that mean the same when they are received.
    aliases: Vec<LitInt>,
    /// Field, its type, index of its word.
    words: Vec<(Ident, Type, usize)>,
    /// Field and its type.
    payload: Option<(Ident, Type)>,
    documentation: String,
}

impl Operation {
    fn parse(variant: &Variant, word_count: usize) -> Result<Operation> {
        let (number, aliases) = numbers(variant)?;
        let mut operation = Operation {
            variant: variant.ident.clone(),
            constant: Ident::new(
                &upper_case(&variant.ident.to_string()),
                variant.ident.span(),
            ),
            documentation: format!("Number of the operation `{}`.", variant.ident),
            number,
            aliases,
            words: Vec::new(),
            payload: None,
        };
        match &variant.fields {
            Fields::Unit => {}
            Fields::Named(fields) => {
                for field in &fields.named {
                    operation.add_field(field, word_count)?;
                }
            }
            Fields::Unnamed(_) => {
                return Err(Error::new(
                    variant.span(),
                    "fields of an operation must be named",
                ));
            }
        }
        Ok(operation)
    }

    fn add_field(&mut self, field: &syn::Field, word_count: usize) -> Result<()> {
        let Some(name) = field.ident.clone() else {
            return Err(Error::new(
                field.span(),
                "fields of an operation must be named",
            ));
        };
        if field.attrs.iter().any(|a| a.path().is_ident("payload")) {
            if self.payload.is_some() {
                return Err(Error::new(
                    field.span(),
                    "an operation has at most one payload",
                ));
            }
            self.payload = Some((name, field.ty.clone()));
            return Ok(());
        }
        let index = required_number(&field.attrs, "word", field.span())?;
        let index: usize = index.base10_parse()?;
        if index >= word_count {
            let message = format!(
                "there are {word_count} words, so the last one is {}",
                word_count - 1
            );
            return Err(Error::new(field.span(), message));
        }
        if self.words.iter().any(|(_, _, taken)| *taken == index) {
            return Err(Error::new(
                field.span(),
                format!("word {index} is used twice"),
            ));
        }
        self.words.push((name, field.ty.clone(), index));
        Ok(())
    }

    /// `{ a, b, payload }`: the pattern and the expression that name every field.
    fn fields(&self) -> TokenStream {
        let words = self.words.iter().map(|(name, _, _)| name);
        let payload = self.payload.iter().map(|(name, _)| name);
        quote! { { #(#words,)* #(#payload,)* } }
    }
}

/// The numbers in `#[op(number, alias, …)]`.
fn numbers(variant: &Variant) -> Result<(LitInt, Vec<LitInt>)> {
    let missing = || Error::new(variant.ident.span(), "missing `#[op(number)]`");
    let attribute = variant.attrs.iter().find(|a| a.path().is_ident("op"));
    let list = attribute
        .ok_or_else(missing)?
        .parse_args_with(Punctuated::<LitInt, Token![,]>::parse_terminated)?;
    let mut numbers = list.into_iter();
    let number = numbers.next().ok_or_else(missing)?;
    Ok((number, numbers.collect()))
}

/// The number in `#[name(number)]`.
fn required_number(attributes: &[Attribute], name: &str, span: Span) -> Result<LitInt> {
    match attributes.iter().find(|a| a.path().is_ident(name)) {
        Some(attribute) => attribute.parse_args(),
        None => Err(Error::new(span, format!("missing `#[{name}(number)]`"))),
    }
}

/// `GetNodeIds` to `GET_NODE_IDS`.
fn upper_case(name: &str) -> String {
    let mut result = String::new();
    for (index, letter) in name.chars().enumerate() {
        if letter.is_uppercase() && index > 0 {
            result.push('_');
        }
        result.extend(letter.to_uppercase());
    }
    result
}

/// Generates constants and the implementation of `Operation` for `input`, or says what is wrong.
pub fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new(
            input.span(),
            "Operation can be derived for enums only",
        ));
    };
    let header = Header::parse(input)?;
    let mut operations = Vec::new();
    for variant in &data.variants {
        operations.push(Operation::parse(variant, header.words)?);
    }
    refuse_equal_numbers(&operations)?;
    let constants = expand_constants(&header, &operations);
    let encoder = expand_encoder(&header, &operations);
    let decoder = expand_decoder(&header, &operations);
    let (name, number, words) = (&input.ident, &header.number, header.words);
    Ok(quote! {
        impl #name { #constants }

        impl ::scif_abi::codec::Operation<#words> for #name {
            type Number = #number;
            #encoder
            #decoder
        }
    })
}

fn refuse_equal_numbers(operations: &[Operation]) -> Result<()> {
    let mut seen = std::collections::BTreeMap::new();
    for operation in operations {
        for number in std::iter::once(&operation.number).chain(&operation.aliases) {
            let number: u128 = number.base10_parse()?;
            if let Some(other) = seen.insert(number, &operation.variant) {
                let message = format!("number {number} is already that of `{other}`");
                return Err(Error::new(operation.variant.span(), message));
            }
        }
    }
    Ok(())
}

fn expand_constants(header: &Header, operations: &[Operation]) -> TokenStream {
    let number_type = &header.number;
    operations
        .iter()
        .map(|operation| {
            let Operation {
                constant,
                number,
                documentation,
                ..
            } = operation;
            quote! {
                #[doc = #documentation]
                pub const #constant: #number_type = #number;
            }
        })
        .collect()
}

fn expand_encoder(header: &Header, operations: &[Operation]) -> TokenStream {
    let word_count = header.words;
    let mut numbers = TokenStream::new();
    let mut names = TokenStream::new();
    let mut words = TokenStream::new();
    let mut payloads = TokenStream::new();
    let mut lengths = TokenStream::new();
    for operation in operations {
        let Operation {
            variant,
            constant,
            aliases,
            ..
        } = operation;
        let text = variant.to_string();
        numbers.extend(quote! { Self::#variant { .. } => Self::#constant, });
        let received = quote! { Self::#constant #(| #aliases)* };
        names.extend(quote! { #received => ::core::option::Option::Some(#text), });
        let length = match &operation.payload {
            Some((_, payload_type)) => quote! { ::core::mem::size_of::<#payload_type>() },
            None => quote! { 0 },
        };
        lengths.extend(quote! { #received => ::core::option::Option::Some(#length), });
        let fields = operation.words.iter().map(|(name, _, _)| name);
        let stores = operation.words.iter().map(|(name, _, index)| {
            quote! { words[#index] = ::scif_abi::codec::Word::to_word(*#name); }
        });
        words.extend(quote! { Self::#variant { #(#fields,)* .. } => { #(#stores)* } });
        payloads.extend(match &operation.payload {
            Some((name, _)) => quote! {
                Self::#variant { #name, .. } => ::scif_abi::codec::payload_bytes(#name),
            },
            None => quote! { Self::#variant { .. } => &[], },
        });
    }
    quote! {
        fn number(&self) -> Self::Number {
            match self { #numbers }
        }

        fn name(number: Self::Number) -> ::core::option::Option<&'static str> {
            match number { #names _ => ::core::option::Option::None }
        }

        fn payload_len(number: Self::Number) -> ::core::option::Option<usize> {
            match number { #lengths _ => ::core::option::Option::None }
        }

        fn words(&self) -> [u64; #word_count] {
            #[allow(unused_mut, reason = "an operation set may use no word at all")]
            let mut words = [0u64; #word_count];
            match self { #words }
            words
        }

        fn payload(&self) -> &[u8] {
            match self { #payloads }
        }
    }
}

fn expand_decoder(header: &Header, operations: &[Operation]) -> TokenStream {
    let word_count = header.words;
    let mut arms = TokenStream::new();
    for operation in operations {
        let Operation {
            variant,
            constant,
            aliases,
            ..
        } = operation;
        let fields = operation.fields();
        let loads = operation.words.iter().map(|(name, word_type, index)| {
            quote! {
                let #name = ::scif_abi::codec::word::<#word_type>(&words, #index)?;
            }
        });
        let payload = match &operation.payload {
            Some((name, payload_type)) => quote! {
                let #name = ::scif_abi::codec::payload::<#payload_type>(payload)?;
            },
            None => TokenStream::new(),
        };
        arms.extend(quote! {
            Self::#constant #(| #aliases)* => {
                #(#loads)*
                #payload
                ::core::result::Result::Ok(Self::#variant #fields)
            }
        });
    }
    quote! {
        fn decode(
            number: Self::Number,
            words: [u64; #word_count],
            payload: &[u8],
        ) -> ::core::result::Result<Self, ::scif_abi::codec::DecodeError> {
            let _ = (&words, payload);
            match number {
                #arms
                _ => ::core::result::Result::Err(
                    ::scif_abi::codec::DecodeError::UnknownOperation { number: number.into() },
                ),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{expand, upper_case};
    use syn::parse_quote;

    #[test]
    fn names_become_constants() {
        assert_eq!(upper_case("GetNodeIds"), "GET_NODE_IDS");
        assert_eq!(upper_case("Exit"), "EXIT");
    }

    #[test]
    fn generates_numbers_and_both_directions() {
        let tokens = expand(&parse_quote! {
            #[operation(number = u64, words = 2)]
            enum Call {
                #[op(1)]
                Stop,
                #[op(2, 0x12)]
                Go { #[word(1)] speed: u16, #[payload] route: Route },
            }
        });
        let text = tokens.map(|t| t.to_string()).unwrap_or_default();
        for expected in [
            "const STOP : u64 = 1",
            "const GO : u64 = 2",
            "fn decode",
            "words [1usize]",
            "Self :: GO | 0x12 =>",
            "size_of :: < Route >",
        ] {
            assert!(text.contains(expected), "`{expected}` is missing in {text}");
        }
    }

    #[test]
    fn refuses_contradictions() {
        let equal_numbers = parse_quote! {
            #[operation(number = u64, words = 1)]
            enum A { #[op(1)] B, #[op(1)] C }
        };
        let equal_alias = parse_quote! {
            #[operation(number = u64, words = 1)]
            enum A { #[op(1)] B, #[op(2, 1)] C }
        };
        let no_number = parse_quote! { #[operation(number = u64, words = 1)] enum A { B } };
        let no_header = parse_quote! { enum A { #[op(1)] B } };
        let word_twice = parse_quote! {
            #[operation(number = u64, words = 2)]
            enum A { #[op(1)] B { #[word(0)] c: u16, #[word(0)] d: u16 } }
        };
        let word_outside = parse_quote! {
            #[operation(number = u64, words = 1)]
            enum A { #[op(1)] B { #[word(1)] c: u16 } }
        };
        let two_payloads = parse_quote! {
            #[operation(number = u64, words = 1)]
            enum A { #[op(1)] B { #[payload] c: C, #[payload] d: D } }
        };
        let unmarked_field = parse_quote! {
            #[operation(number = u64, words = 1)]
            enum A { #[op(1)] B { c: u16 } }
        };
        let cases = [
            equal_numbers,
            equal_alias,
            no_number,
            no_header,
            word_twice,
            word_outside,
            two_payloads,
            unmarked_field,
        ];
        for input in cases {
            assert!(expand(&input).is_err());
        }
    }
}
