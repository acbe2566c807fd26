use super::{MAX_TEXT, ParseError};

/// A piece of the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A name without delimiters, which may be a keyword.
    Word(String),
    /// A name in `[]` or `""`, which is never a keyword.
    Name(String),
    /// `@name`
    Parameter(String),
    Text(String),
    Integer(i64),
    Float(f64),
    Symbol(&'static str),
    End,
}

impl Token {
    /// For error texts.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Word(word) => format!("'{word}'"),
            Self::Name(name) => format!("[{name}]"),
            Self::Parameter(name) => format!("@{name}"),
            Self::Text(text) => format!("the text '{text}'"),
            Self::Integer(number) => number.to_string(),
            Self::Float(number) => number.to_string(),
            Self::Symbol(symbol) => format!("'{symbol}'"),
            Self::End => "the end".to_owned(),
        }
    }
}

/// The tokens of a text, each with its position, counted in characters from 1; the last is the end.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token)>, ParseError> {
    let characters: Vec<char> = text.chars().take(MAX_TEXT + 1).collect();
    if characters.len() > MAX_TEXT {
        return Err(ParseError::new(
            MAX_TEXT + 1,
            format!("longer than {MAX_TEXT} characters"),
        ));
    }
    let mut lexer = Lexer {
        rest: &characters,
        at: 0,
    };
    let mut tokens = Vec::new();
    loop {
        let (position, token) = lexer.next()?;
        let end = token == Token::End;
        tokens.push((position, token));
        if end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    rest: &'a [char],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.rest.get(self.at + ahead).copied()
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while let Some(c) = self.peek(0).filter(|c| keep(*c)) {
            taken.push(c);
            self.at += 1;
        }
        taken
    }

    fn next(&mut self) -> Result<(usize, Token), ParseError> {
        self.take_while(char::is_whitespace);
        let position = self.at + 1;
        let Some(c) = self.peek(0) else {
            return Ok((position, Token::End));
        };
        let token = match c {
            '\'' => Token::Text(self.delimited('\'', "text")?),
            '"' => Token::Name(self.delimited('"', "name")?),
            '[' => Token::Name(self.delimited(']', "name")?),
            '@' => {
                self.at += 1;
                let name = self.take_while(is_name);
                if name.is_empty() {
                    return Err(ParseError::new(position, "a parameter without a name"));
                }
                Token::Parameter(name)
            }
            c if c.is_ascii_digit()
                || (c == '.' && self.peek(1).is_some_and(|c| c.is_ascii_digit())) =>
            {
                self.number(position)?
            }
            c if c.is_alphabetic() || c == '_' => Token::Word(self.take_while(is_name)),
            _ => self.symbol(position, c)?,
        };
        Ok((position, token))
    }

    /// Text between delimiters; a doubled end delimiter stands for one.
    fn delimited(&mut self, end: char, what: &str) -> Result<String, ParseError> {
        let position = self.at + 1;
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.peek(0) {
                Some(c) if c == end && self.peek(1) == Some(end) => {
                    text.push(end);
                    self.at += 2;
                }
                Some(c) if c == end => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(c) => {
                    text.push(c);
                    self.at += 1;
                }
                None => return Err(ParseError::new(position, format!("{what} without an end"))),
            }
        }
    }

    fn number(&mut self, position: usize) -> Result<Token, ParseError> {
        let mut digits = self.take_while(|c| c.is_ascii_digit());
        let mut whole = true;
        if self.peek(0) == Some('.') {
            whole = false;
            self.at += 1;
            digits.push('.');
            digits.push_str(&self.take_while(|c| c.is_ascii_digit()));
        }
        if matches!(self.peek(0), Some('e' | 'E')) {
            let sign = matches!(self.peek(1), Some('+' | '-'));
            if self
                .peek(1 + usize::from(sign))
                .is_some_and(|c| c.is_ascii_digit())
            {
                whole = false;
                digits.push('e');
                self.at += 1;
                if let Some(sign) = self.peek(0).filter(|_| sign) {
                    digits.push(sign);
                    self.at += 1;
                }
                digits.push_str(&self.take_while(|c| c.is_ascii_digit()));
            }
        }
        if self.peek(0).is_some_and(is_name) {
            return Err(ParseError::new(position, "a number that runs into a name"));
        }
        if whole {
            return digits
                .parse()
                .map(Token::Integer)
                .map_err(|_| ParseError::new(position, "an integer beyond 64 bits"));
        }
        digits
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite())
            .map(Token::Float)
            .ok_or_else(|| ParseError::new(position, "a number out of range"))
    }

    fn symbol(&mut self, position: usize, c: char) -> Result<Token, ParseError> {
        const SYMBOLS: [&str; 17] = [
            "<>", "!=", "<=", ">=", "<", ">", "=", "+", "-", "*", "/", "%", "(", ")", ",", ".", ";",
        ];
        for symbol in SYMBOLS {
            if symbol
                .chars()
                .enumerate()
                .all(|(index, c)| self.peek(index) == Some(c))
            {
                self.at += symbol.len();
                return Ok(Token::Symbol(symbol));
            }
        }
        Err(ParseError::new(position, format!("unexpected {c:?}")))
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
