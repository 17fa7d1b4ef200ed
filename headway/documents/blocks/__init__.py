"""What a document says, to be searched and quoted: its headings, paragraphs and code, and where each of them stands.

    manual.md ─ files.read_text_blocks    dispatch by suffix; what has no reader here is read by its translation format
                    │
    reader      plain_text  markdown  html (and .epub)  office (.docx, .odt)  pages (.pdf)
                    ▼
    block.TextBlock   text, level of a heading, place: a line, a page, a paragraph or a chapter

Unlike the readers beside this package, these write nothing back: markup is dropped, and code is text."""
