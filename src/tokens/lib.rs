//! Counts tokens: the tokenizers of models, and the Hugging Face hub that their files come from.

pub mod hub;

pub mod tokenizer;
