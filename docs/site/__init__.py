"""What turns docs/ into a site: MkDocs' hooks, equations as MathML, and the pages made from the code."""
